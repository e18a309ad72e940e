"""Trajectories on two processes: equal to one process, to plain training, and to the run resumed."""

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

from gradaccord.methods.regularize.recadam import RecAdam
from gradaccord.methods.trajectory.averaged import Averaged
from gradaccord.methods.trajectory.fomaml import FOMAML
from gradaccord.methods.trajectory.reptile import MultiTaskReptile, Reptile
from gradaccord.methods.trajectory.sequential_reptile import SequentialReptile

TASKS = ("a", "b", "c")
STEPS = 11  # two trajectories of four steps, and three steps more
MIDDLE = 6  # inside the second trajectory
KINDS: dict[str, Callable[..., Any]] = {
    "SequentialReptile": partial(SequentialReptile, inner_steps=4, outer_lr=0.3),
    "Reptile": Reptile,
    "FOMAML": partial(FOMAML, outer_lr=0.7),
    "Averaged": lambda model, optimizer: Averaged(model, decay=0.6),
    "MultiTaskReptile": partial(MultiTaskReptile, tasks=2, inner_steps=4),
}
PLAIN = partial(SequentialReptile, inner_steps=4, outer_lr=1)


class Net(nn.Module):
    """An embedding, a body and a head for each task, in float64."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(2048, 4, dtype=torch.float64)
        self.body = nn.Linear(4, 4, dtype=torch.float64)
        self.heads = nn.ModuleDict({t: nn.Linear(4, 2, dtype=torch.float64) for t in TASKS})

    def forward(self, task: str, words: torch.Tensor) -> torch.Tensor:
        return self.heads[task](torch.tanh(self.body(self.words(words).mean(1))))


def loss(model: nn.Module, task: str, step: int, rank: int | None) -> torch.Tensor:
    """Of a batch of 8 examples; a process sees its half of them."""
    generator = torch.Generator().manual_seed(step)
    words = torch.randint(2048, (8, 3), generator=generator)
    labels = torch.randint(2, (8,), generator=generator)
    part = slice(None) if rank is None else slice(rank, None, 2)
    return nn.functional.cross_entropy(model(task, words[part]), labels[part])


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def recadam(model: nn.Module) -> torch.optim.Optimizer:
    return RecAdam(model.parameters(), lr=0.01, gamma=30.0, t0=8)


def train(
    model: nn.Module, optimizer: Any, method: Any, rank: int | None, steps: range = range(STEPS)
) -> None:
    for step in steps:
        task = TASKS[step // 4]
        if method is None:
            loss(model, task, step, rank).backward()
        else:
            method.backward({task: partial(loss, model, task, step, rank)})
        optimizer.step()
        if method is not None:
            method.after_step()
        optimizer.zero_grad()


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    from torch.distributed.tensor import DTensor

    return {
        name.removeprefix("module."): (p.full_tensor() if isinstance(p, DTensor) else p)
        .detach()
        .clone()
        for name, p in model.named_parameters()
    }


def alone(kind: str, optimizer_of: Callable[..., Any] = adam) -> dict[str, torch.Tensor]:
    model = Net()
    optimizer = optimizer_of(model)
    method = KINDS[kind](model, optimizer)
    train(model, optimizer, method, None)
    method.finish()
    return weights_of(model)


@pytest.fixture(scope="module")
def saw(launch: Any) -> list[dict[str, Any]]:
    return launch(Path(__file__).name)


@pytest.mark.parametrize("wrapper", ["DDP", "FSDP2"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_equal_one_on_the_joined_batch(kind: str, wrapper: str, saw: Any) -> None:
    expected = alone(kind)
    for of_rank in saw:
        weights = of_rank[wrapper, kind]["weights"]
        for name in expected:
            torch.testing.assert_close(weights[name], expected[name], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("wrapper", ["DDP", "FSDP2"])
@pytest.mark.parametrize("kind", KINDS)
def test_resume_in_the_middle_of_a_trajectory_is_bit_equal(kind: str, wrapper: str, saw: Any) -> None:
    for of_rank in saw:
        run = of_rank[wrapper, kind]
        assert all(torch.equal(run["resumed"][name], run["weights"][name]) for name in run["weights"])


@pytest.mark.parametrize("wrapper", ["DDP", "FSDP2"])
def test_recadam_pulls_shards_as_it_pulls_the_whole(wrapper: str, saw: Any) -> None:
    expected = alone("SequentialReptile", recadam)
    for of_rank in saw:
        run = of_rank[wrapper, "RecAdam"]
        for name in expected:
            torch.testing.assert_close(run["weights"][name], expected[name], rtol=1e-9, atol=1e-9)
            assert torch.equal(run["resumed"][name], run["weights"][name])


@pytest.mark.parametrize("wrapper", ["DDP", "FSDP2"])
def test_phi_can_be_looked_at_in_the_middle(wrapper: str, saw: Any) -> None:
    for of_rank in saw:
        run = of_rank[wrapper, "SequentialReptile"]
        assert all(torch.equal(run["phi"][name], run["start"][name]) for name in run["phi"])
        assert not torch.equal(run["phi"]["body.weight"], run["weights"]["body.weight"])


def test_outer_lr_one_is_plain_ddp_training_bit_for_bit(saw: Any) -> None:
    for of_rank in saw:
        plain, one = of_rank["plain"], of_rank["outer_lr=1"]
        assert all(torch.equal(one[name], plain[name]) for name in plain)


def work(folder: Path) -> None:
    """What one of the two processes does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    warnings.filterwarnings("error", module="gradaccord")
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2,))

    def replica() -> nn.Module:
        return DistributedDataParallel(Net(), find_unused_parameters=True)

    wrappers: dict[str, Callable[[], nn.Module]] = {
        "DDP": replica,
        "FSDP2": lambda: fully_shard(Net(), mesh=mesh),
    }
    results: dict[Any, Any] = {}
    for wrapper, build in wrappers.items():
        for kind, make in KINDS.items():
            results[wrapper, kind] = one_run(build, adam, make, rank, folder / f"state{rank}.pt")
        make = KINDS["SequentialReptile"]
        results[wrapper, "RecAdam"] = one_run(build, recadam, make, rank, folder / f"state{rank}.pt")
    for name, one in (("plain", None), ("outer_lr=1", PLAIN)):
        model = replica()
        optimizer = adam(model)
        train(model, optimizer, one and one(model, optimizer), rank)
        results[name] = weights_of(model)
    torch.save(results, folder / f"{rank}.pt")
    leave()


def one_run(build: Any, optimizer_of: Any, make: Any, rank: int, path: Path) -> dict[str, Any]:
    """Train to the end, saving in the middle; then again from there with everything built anew."""
    model = build()
    optimizer = optimizer_of(model)
    method = make(model, optimizer)
    train(model, optimizer, method, rank, range(4))
    start = weights_of(model)
    train(model, optimizer, method, rank, range(4, MIDDLE))
    with method.outer_weights():
        phi = weights_of(model)
    torch.save([model.state_dict(), optimizer.state_dict(), method.state_dict()], path)
    train(model, optimizer, method, rank, range(MIDDLE, STEPS))
    method.finish()

    again = build()
    second = optimizer_of(again)
    resumed = make(again, second)
    weights, moments, state = torch.load(path, weights_only=False)
    again.load_state_dict(weights)
    second.load_state_dict(moments)
    resumed.load_state_dict(state)
    train(again, second, resumed, rank, range(MIDDLE, STEPS))
    resumed.finish()
    return {
        "weights": weights_of(model),
        "resumed": weights_of(again),
        "start": start,
        "phi": phi,
    }


if __name__ == "__main__":
    work(Path(sys.argv[1]))
