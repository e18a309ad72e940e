"""DotProd and SAM on two processes, replicated and sharded, against one on the joined batch."""

from __future__ import annotations

import math
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

from gradaccord import SAM, DotProd, PairedSum

STEPS = 5
METHODS: dict[str, Callable[..., Any]] = {
    "exact": partial(DotProd, weight=0.3, max_ratio=0.5),
    "exact cosine": partial(DotProd, weight=0.3, objective="cosine", max_ratio=math.inf),
    "exact symmetric": partial(DotProd, weight=0.3, scheme="symmetric", max_ratio=math.inf),
    "differences": partial(DotProd, mode="difference", weight=0.3, max_ratio=0.5),
    "centred": partial(DotProd, mode="difference", scheme="centred", max_ratio=math.inf),
    "symmetric": partial(DotProd, mode="difference", scheme="symmetric", objective="cosine"),
    "pair": PairedSum,
    "SAM": SAM,
    "SAM on pairs": partial(SAM, batches=2),
}
SHARDED = ["differences", "centred", "symmetric", "pair", "SAM", "SAM on pairs"]


class Net(nn.Module):
    """An embedding that is stored by its rows, and two layers; in float64."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(2048, 4, dtype=torch.float64)
        self.body = nn.Linear(4, 6, dtype=torch.float64)
        self.head = nn.Linear(6, 3, dtype=torch.float64)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.body(self.words(words).mean(1))))


def loss(model: nn.Module, step: int, rank: int | None, half: int) -> tuple[torch.Tensor, int]:
    """Mean over one of two micro-batches of a batch of 12; a process sees its part of them."""
    generator = torch.Generator().manual_seed(step)
    words = torch.randint(2048, (12, 3), generator=generator)
    labels = torch.randint(3, (12,), generator=generator)
    cut = slice(0, 5) if half == 0 else slice(5, 12)
    words, labels = words[cut], labels[cut]
    if rank is not None:  # unequal parts
        part = slice(0, 2) if rank == 0 else slice(2, None)
        words, labels = words[part], labels[part]
    return nn.functional.cross_entropy(model(words), labels), len(labels)


def train(model: nn.Module, method: Any, rank: int | None) -> list[dict[str, float]]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    reports = []
    for step in range(2 * STEPS):
        calls = [partial(loss, model, step, rank, half) for half in (0, 1)]
        reports.append(method.backward({"x": calls}).to_floats())
        optimizer.step()
        optimizer.zero_grad()
    return reports


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    from torch.distributed.tensor import DTensor

    return {
        n.removeprefix("module."): (p.full_tensor() if isinstance(p, DTensor) else p).detach().clone()
        for n, p in model.named_parameters()
    }


@pytest.fixture(scope="module")
def saw(launch: Any) -> list[dict[str, Any]]:
    return launch(Path(__file__).name)


@pytest.mark.parametrize(
    ("wrapper", "name"), [("DDP", name) for name in METHODS] + [("FSDP2", name) for name in SHARDED]
)
def test_two_processes_equal_one_on_the_joined_batch(wrapper: str, name: str, saw: Any) -> None:
    model = Net()
    start = weights_of(model)
    expected_reports = train(model, METHODS[name](model), None)
    expected = weights_of(model)
    assert not torch.equal(start["body.weight"], expected["body.weight"])
    for of_rank in saw:
        weights, reports = of_rank[wrapper, name]
        for key in expected:
            torch.testing.assert_close(weights[key], expected[key], rtol=1e-7, atol=1e-8)
        for found, wanted in zip(reports, expected_reports, strict=True):
            assert found.keys() == wanted.keys()
            for key in {"loss/x", "dot", "product_norm", "ratio"} & wanted.keys():
                assert found[key] == pytest.approx(wanted[key], rel=1e-5, abs=1e-9)


def test_exact_products_of_a_sharded_model_fall_back_to_differences(saw: Any) -> None:
    model = Net()
    train(model, METHODS["differences"](model), None)
    for of_rank in saw:
        weights, message = of_rank["fallback"]
        assert "fully_shard cannot be differentiated twice" in message
        for key, value in weights_of(model).items():
            torch.testing.assert_close(weights[key], value, rtol=1e-7, atol=1e-8)


def work(folder: Path) -> None:
    """What one of the two processes does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    warnings.filterwarnings("error", module="gradaccord")
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2,))
    results: dict[Any, Any] = {}
    for name, make in METHODS.items():
        model: nn.Module = DistributedDataParallel(Net())
        reports = train(model, make(model), rank)
        results["DDP", name] = weights_of(model), reports
    for name in SHARDED:
        model = fully_shard(Net(), mesh=mesh)
        reports = train(model, METHODS[name](model), rank)
        results["FSDP2", name] = weights_of(model), reports
    model = fully_shard(Net(), mesh=mesh)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(model, METHODS["exact"](model), rank)
    results["fallback"] = weights_of(model), " ".join(str(w.message) for w in caught)
    torch.save(results, folder / f"{rank}.pt")
    leave()


if __name__ == "__main__":
    torch.set_num_threads(1)
    work(Path(sys.argv[1]))
