"""SMART and SWEP on two processes: equal to one process on the joined batch, also sharded."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from scenarios import leave
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import gradaccord
from gradaccord.methods.regularize.smart import SMART
from gradaccord.methods.regularize.swep import SWEP

TASKS = ("a", "b")
STEPS = 4


class Net(nn.Module):
    """An embedding, a body and a head for each task, in float64."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(50, 4, dtype=torch.float64)
        self.body = nn.Linear(4, 4, dtype=torch.float64)
        self.heads = nn.ModuleDict({t: nn.Linear(4, 2, dtype=torch.float64) for t in TASKS})

    def forward(self, task: str, words: torch.Tensor) -> torch.Tensor:
        return self.heads[task](torch.tanh(self.body(self.words(words))).mean(1))


def given(task: str, step: int, rank: int | None) -> tuple[torch.Tensor, Any]:
    """A batch of 8 sentences, of which a process sees its half."""
    generator = torch.Generator().manual_seed(10 * step + TASKS.index(task))
    words = torch.randint(50, (8, 3), generator=generator)
    labels = torch.randint(2, (8,), generator=generator)
    part = slice(None) if rank is None else slice(rank, None, 2)
    return words[part], partial(F.cross_entropy, target=labels[part])


def constant(shape: Any, **options: Any) -> torch.Tensor:
    """Stands in for chance, which would not be the same for half a batch as for the whole."""
    return torch.ones(shape, **options)


def train(kind: str, wrap: Callable[[nn.Module], nn.Module], rank: int | None) -> dict[str, Any]:
    net = Net()
    model = wrap(net)
    if kind == "SWEP":
        term: Any = SWEP(model, encoder="body", beta=0.1)
        method: Any = gradaccord.PCGrad(term)
        trained = list(term.parameters())
    else:
        bregman = 0.0 if kind == SHARDED else 1.0
        term = SMART(model, epsilon=0.05, bregman=bregman, momentum=0.9)
        method = gradaccord.GradVac(model)
        trained = list(model.parameters())
    optimizer = torch.optim.AdamW(trained, lr=0.02)
    chance = torch.randn, torch.randn_like
    torch.randn, torch.randn_like = constant, torch.ones_like
    try:
        for step in range(STEPS):
            losses = {}
            for task in TASKS:
                words, loss = given(task, step, rank)
                losses[task] = term.loss(partial(model, task, words), loss, task=task)
            if kind == "SMART without a method":
                sum(losses[task]() for task in TASKS).backward()
            else:
                method.backward(losses)
            optimizer.step()
            method.after_step()
            term.after_step()
            optimizer.zero_grad()
    finally:
        torch.randn, torch.randn_like = chance
    result = {f"model.{n}": whole(p) for n, p in net.named_parameters()}
    if kind == "SWEP":
        result |= {f"network.{n}": p.detach().clone() for n, p in term.network.named_parameters()}
    elif term.teacher is not None:
        result |= {f"teacher.{n}": w for n, w in term.teacher.state_dict().items()}
    return result


def whole(parameter: torch.Tensor) -> torch.Tensor:
    gathered = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
    return gathered.detach().clone()


SHARDED = "SMART under FSDP2"
KINDS = ("SMART", "SMART without a method", "SWEP", SHARDED)


@pytest.fixture(scope="module")
def saw(launch: Any) -> list[dict[str, Any]]:
    return launch(Path(__file__).name)


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_equal_one_on_the_joined_batch(kind: str, saw: Any) -> None:
    expected = train(kind, lambda net: net, None)
    for of_rank in saw:
        assert of_rank[kind].keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(of_rank[kind][name], value, rtol=1e-8, atol=1e-8, msg=name)


def test_a_teacher_of_a_sharded_model_is_refused(saw: Any) -> None:
    assert all("cannot stand in for a model sharded by fully_shard" in r["refusal"] for r in saw)


@pytest.mark.parametrize("kind", KINDS)
def test_processes_do_not_drift_apart(kind: str, saw: Any) -> None:
    assert all(torch.equal(value, saw[1][kind][name]) for name, value in saw[0][kind].items())


def work(folder: Path) -> None:
    """What one of the two processes does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    warnings.filterwarnings("error", module="gradaccord")
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    shard = partial(fully_shard, mesh=init_device_mesh("cpu", (2,)))
    results: dict[str, Any] = {}
    for kind in KINDS:
        wrap: Any = shard if kind == SHARDED else DistributedDataParallel
        results[kind] = train(kind, wrap, rank)
    with pytest.raises(ValueError) as refusal:
        SMART(shard(Net()), bregman=1.0)
    results["refusal"] = str(refusal.value)
    torch.save(results, folder / f"{rank}.pt")
    leave()


if __name__ == "__main__":
    work(Path(sys.argv[1]))
