"""PCGrad in your own training loop: three tasks, one encoder, a head for each task.

Needs `pip install gradaccord`. The data are made on the spot; it takes a few seconds.
"""

from functools import partial

import torch
from torch import nn

import gradaccord

# %% Three tasks read the same 20 numbers. Each has its own rule for what to answer.
generator = torch.Generator().manual_seed(0)
rules = {task: torch.randn(20, 3, generator=generator) for task in ("red", "green", "blue")}


def batch_of(task: str, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs, and the class that the task's rule gives them."""
    inputs = torch.randn(size, 20, generator=generator)
    return inputs, (inputs @ rules[task]).argmax(1)


dev = {task: batch_of(task, 500) for task in rules}


# %% One encoder for all tasks, and a head for each.
class Model(nn.Module):
    """A small shared network with a head for each task."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 16), nn.Tanh())
        self.heads = nn.ModuleDict({task: nn.Linear(16, 3) for task in rules})

    def forward(self, task: str, inputs: torch.Tensor) -> torch.Tensor:
        return self.heads[task](self.encoder(inputs))


def loss_fn(model: nn.Module, task: str, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The loss of one task on one of its batches."""
    inputs, labels = batch
    return nn.functional.cross_entropy(model(task, inputs), labels)


# %% The loop. The method takes the place of `loss.backward()`; the rest is as ever.
accuracy = {}
for kind in (gradaccord.Sum, gradaccord.PCGrad):
    torch.manual_seed(0)
    generator.manual_seed(1)  # both methods see the same batches
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    method = kind(model)
    for step in range(200):
        batches = {task: batch_of(task, 32) for task in rules}
        report = method.backward({t: partial(loss_fn, model, t, b) for t, b in batches.items()})
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
        if step % 50 == 0:
            cosine, conflicts = report.mean_cosine, report.conflicts
            print(f"step {step:3}  mean cosine {cosine:5.2f}  conflicts {conflicts:.2f}")
    right = [(model(task, x).argmax(1) == y).float().mean() for task, (x, y) in dev.items()]
    accuracy[kind.__name__] = 100 * sum(right).item() / len(right)
    print(f"{kind.__name__}: {accuracy[kind.__name__]:.1f} % right on dev, mean of three tasks")

# %% Everything that was measured in the last step, ready for any logger.
for name, value in report.to_floats().items():
    print(f"{name:20} {value:8.3f}")
