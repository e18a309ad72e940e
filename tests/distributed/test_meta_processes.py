"""Few-shot learners on two processes that share a batch of tasks: equal to one process."""

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
from torch.nn.parallel import DistributedDataParallel

from gradaccord.meta import FOMAML, MAML, DotProd, MAMLPlusPlus, MetaSGD, Reptile, TaskBatch

ITERATIONS = 4
KINDS: dict[str, Callable[..., Any]] = {
    "MAML": MAML,
    "FOMAML": FOMAML,
    "MetaSGD": MetaSGD,
    "MAML++": partial(MAMLPlusPlus, statistics="running", epoch_length=2),
    "Reptile": partial(Reptile, inner_lr=0.02, inner_batch=4, optimizer_state="reset"),
    "DotProd inner": partial(DotProd, inner_lr=0.02, inner_batch=3, optimizer_state="reset"),
    "DotProd outer": partial(DotProd, reading="outer", inner_lr=0.02, inner_batch=None),
    "MAML shared": partial(MAML, share=True),
    "FOMAML shared": partial(FOMAML, share=True),
    "MetaSGD shared": partial(MetaSGD, share=True),
    "MAML++ shared": partial(MAMLPlusPlus, share=True, epoch_length=2, second_order_from=1),
}
UNEQUAL = {0: slice(0, 3), 1: slice(3, 4)}
HALVES = {0: slice(0, 2), 1: slice(2, 4)}


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)
    return nn.Sequential(*layers).double()


def tasks(iteration: int) -> TaskBatch:
    generator = torch.Generator().manual_seed(iteration)
    support, query = (torch.randn(4, n, 6, generator=generator, dtype=torch.float64) for n in (9, 12))
    return TaskBatch(support, torch.arange(3).repeat(4, 3), query, torch.arange(3).repeat(4, 4))


def train(kind: str, model: nn.Module, part: slice) -> dict[str, Any]:
    learner = KINDS[kind](model, inner_steps=3)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.05)
    reports = []
    for iteration in range(ITERATIONS):
        reports.append(learner.backward(tasks(iteration).part(part)).to_floats())
        reports[-1].pop("seconds")
        optimizer.step()
        learner.after_step()
    state = {name: value.clone() for name, value in learner.state_dict().items()}
    return {"state": state, "reports": reports}


def failure(rank: int) -> str:
    """What this process is told when the second one is given a label that does not exist."""
    learner = MAML(DistributedDataParallel(network()))
    given = tasks(0).part(HALVES[rank])
    if rank == 1:
        given.query_labels[0, 0] = 9
    try:
        learner.backward(given)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    assert all(parameter.grad is None for parameter in learner.parameters())
    assert learner.backward(tasks(0).part(HALVES[rank])).tasks == 4  # and it goes on
    return told


def kept_moments() -> str:
    with pytest.raises(ValueError) as raised:
        Reptile(DistributedDataParallel(network()))
    return str(raised.value)


def main(folder: Path) -> None:
    warnings.filterwarnings("error", module="gradaccord")
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    saw: dict[str, Any] = {
        (kind, name): train(kind, DistributedDataParallel(network()), parts[rank])
        for kind in KINDS
        for name, parts in (("halves", HALVES), ("unequal", UNEQUAL))
    }
    saw["failure"] = failure(rank)
    saw["kept moments"] = kept_moments()
    torch.save(saw, folder / f"{rank}.pt")
    leave()


@pytest.mark.parametrize("parts", ["halves", "unequal"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_equal_one(kind: str, parts: str, launch: Callable[[str], list[Any]]) -> None:
    first, second = launch("test_meta_processes.py")
    alone = train(kind, network(), slice(None))
    for name, expected in alone["state"].items():
        found = first[kind, parts]["state"][name]
        assert torch.equal(found, second[kind, parts]["state"][name]), name
        # Adam turns gradients that are rounding alone into steps: those of a bias before a norm.
        if not (name == "model.0.bias" and kind in ("Reptile", "DotProd inner")):
            assert torch.allclose(found, expected, rtol=1e-9, atol=1e-11), name
    for ours, expected in zip(first[kind, parts]["reports"], alone["reports"], strict=True):
        assert ours == pytest.approx(expected, rel=1e-9)


def test_a_failure_on_one_process_is_told_to_all(launch: Callable[[str], list[Any]]) -> None:
    first, second = launch("test_meta_processes.py")
    assert first["failure"].startswith(
        "RuntimeError: Process 1 of 2 failed: ValueError: Labels run to 9"
    )
    assert second["failure"].startswith("ValueError: Labels run to 9")


def test_moments_that_pass_from_task_to_task_need_one_process(
    launch: Callable[[str], list[Any]],
) -> None:
    first, _ = launch("test_meta_processes.py")
    assert first["kept moments"].startswith("`optimizer_state` is 'keep', which carries moments")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
