"""The same training on one process or on several: PCGrad under DDP.

Needs `pip install gradaccord`. `python examples/processes.py` runs one process and
`torchrun --nproc-per-node 2 examples/processes.py` two, which share every batch. Both end alike.
"""

import gc
import os
from functools import partial

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import gradaccord

# %% The process group, as in any DDP script. torchrun sets RANK and WORLD_SIZE.
rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
if processes > 1:
    distributed.init_process_group("gloo")  # "nccl" on GPUs

# %% A model with two heads, wrapped in DDP as usual.
torch.manual_seed(0)
rules = {"first": torch.randn(10), "second": torch.randn(10)}


class Model(nn.Module):
    """A shared layer and a head for each task."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(10, 16)
        self.heads = nn.ModuleDict({task: nn.Linear(16, 1) for task in rules})

    def forward(self, task: str, inputs: torch.Tensor) -> torch.Tensor:
        return self.heads[task](self.shared(inputs).tanh()).squeeze(1)


model = Model()
wrapped = DistributedDataParallel(model) if processes > 1 else model
method = gradaccord.PCGrad(wrapped)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

# %% Each process takes its share of every batch. The method joins the tasks' gradients, then combines.
data = torch.Generator().manual_seed(1)


def loss_fn(task: str, inputs: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The mean loss and the number of examples that it is the mean of."""
    return nn.functional.mse_loss(wrapped(task, inputs), inputs @ rules[task]), len(inputs)


for _ in range(50):
    batches = {task: torch.randn(32, 10, generator=data) for task in rules}  # the same everywhere
    shares = {task: batch[rank::processes] for task, batch in batches.items()}
    report = method.backward({task: partial(loss_fn, task, share) for task, share in shares.items()})
    optimizer.step()
    method.after_step()
    optimizer.zero_grad()

# %% The report is the joined batch's on every process. One of them prints it.
total = sum(p.double().abs().sum() for p in model.parameters())
if rank == 0:
    print(f"loss {report.losses.sum():.6f}, cosine {report.mean_cosine:.6f}, weights {total:.6f}")
if processes > 1:
    del method, wrapped  # before their process group: else torch 2.13 may abort as the process ends
    gc.collect()
    distributed.destroy_process_group()
