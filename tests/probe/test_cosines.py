"""Task cosines equal those of autograd and leave no trace on training."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.probe.cosines import task_cosines


class Normed(nn.Module):
    """Dropout, running statistics, a frozen normalisation, and a head for each task."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Tanh())
        self.frozen = nn.BatchNorm1d(6)
        self.heads = nn.ModuleDict({task: nn.Linear(6, 3) for task in "abc"})

    def forward(self, x: torch.Tensor, task: str) -> torch.Tensor:
        return self.heads[task](self.frozen(self.body(x)))


def normed() -> tuple[Normed, dict[str, list[tuple[torch.Tensor, torch.Tensor]]]]:
    torch.manual_seed(0)
    model = Normed().double()
    model.frozen.eval()
    data = {
        task: [(torch.randn(4, 5).double(), torch.randint(3, (4,))) for _ in range(6)] for task in "abc"
    }
    return model, data


def steps(model: nn.Module, data: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    def loss(task: str, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model(x, task), labels)

    return ({task: partial(loss, task, *data[task][i]) for task in data} for i in range(6))


def test_task_cosines_equal_those_of_autograd() -> None:
    model, data = normed()
    found = task_cosines(model, steps(model, data), batches=4)
    oracle = copy.deepcopy(model).eval()
    shared = [p for name, p in oracle.named_parameters() if not name.startswith("heads")]
    vectors = []
    for task in "abc":
        loss = torch.stack([cross_entropy(oracle(x, task), y) for x, y in data[task][:4]]).mean()
        assert found.losses[task] == pytest.approx(float(loss.detach()), rel=1e-12)
        vectors.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, shared)]))
    unit = torch.stack([v / v.norm() for v in vectors])
    torch.testing.assert_close(found.matrix, unit @ unit.T, rtol=1e-12, atol=1e-12)
    pairs = [float(found.matrix[i, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert found.mean == pytest.approx(sum(pairs) / 3)
    assert found.batches == {"a": 4, "b": 4, "c": 4}
    assert found.to_floats()["task_cosine/a~c"] == pytest.approx(pairs[1])


def test_tasks_may_come_in_some_steps_alone() -> None:
    model, data = normed()
    present = ("ab", "bc", "ac", "ab", "bc", "ac")
    given = [{t: s[t] for t in tasks} for s, tasks in zip(steps(model, data), present, strict=True)]
    found = task_cosines(model, given)
    assert found.batches == {"a": 4, "b": 4, "c": 4}
    whole = {t: [step[t] for step in given if t in step] for t in "abc"}  # as micro-batches
    torch.testing.assert_close(found.matrix, task_cosines(model, [whole]).matrix)


def test_task_cosines_leave_no_trace() -> None:
    model, data = normed()
    marks = [torch.full_like(p, i) for i, p in enumerate(model.parameters())]
    for parameter, mark in zip(model.parameters(), marks, strict=True):
        parameter.grad = mark
    state = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    assert not all(modes)
    random = torch.get_rng_state()
    task_cosines(model, steps(model, data))
    assert torch.equal(torch.get_rng_state(), random)
    assert [module.training for module in model.modules()] == modes
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    for parameter, mark in zip(model.parameters(), marks, strict=True):
        assert parameter.grad is mark


def test_a_failing_loss_leaves_no_trace_either() -> None:
    model, data = normed()
    mark = torch.ones_like(model.body[0].weight)
    model.body[0].weight.grad = mark

    def broken() -> torch.Tensor:
        raise RuntimeError("no data")

    with pytest.raises(RuntimeError, match="no data"):
        task_cosines(model, [*steps(model, data), {"c": broken}])
    assert model.training
    assert not model.frozen.training
    assert model.body[0].weight.grad is mark


def test_batches_are_averaged_before_they_are_compared() -> None:
    """Opposite noise in each batch hides that the tasks agree; over all batches it is gone."""
    weight = nn.Linear(2, 1, bias=False).double()
    noise = [torch.tensor([0.0, 10.0 * sign], dtype=torch.float64) for sign in (1, -1)]
    signal = torch.tensor([1.0, 0.0], dtype=torch.float64)

    def loss(sign: int, i: int) -> torch.Tensor:
        return (weight.weight[0] * (signal + sign * noise[i])).sum()

    def given() -> list[dict[str, Any]]:
        return [{"a": partial(loss, 1, i), "b": partial(loss, -1, i)} for i in (0, 1)]

    assert task_cosines(weight, given(), batches=None).mean == pytest.approx(1)
    assert task_cosines(weight, given(), batches=1).mean == pytest.approx(-99 / 101)


def test_a_heat_map_is_written(tmp_path: Path) -> None:
    model, data = normed()
    found = task_cosines(model, steps(model, data))
    assert found.draw(tmp_path / "new" / "cosines.png").read_bytes()[1:4] == b"PNG"
    assert "</svg>" in found.draw(tmp_path / "cosines.svg").read_text(encoding="utf-8")


def test_losses_that_do_not_fit_are_named() -> None:
    model, data = normed()
    with pytest.raises(ValueError, match="a cosine needs two"):
        task_cosines(model, steps(model, {"a": data["a"]}))
    with pytest.raises(TypeError, match="`losses` is one mapping"):
        task_cosines(model, next(steps(model, data)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`batches` is 0"):
        task_cosines(model, steps(model, data), batches=0)
