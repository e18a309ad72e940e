"""Where a run stands: running means, and numbers of a step."""

from __future__ import annotations

import pytest
import torch

from gradaccord.core.report import StepReport
from gradaccord.train.progress import Progress, mean_dot, watch_of
from gradaccord.train.step_batches import StepBatch


def test_a_pair_whose_halves_are_of_one_task_and_came_apart_is_noted() -> None:
    """`dotprod` with every=4 draws the second half alone: the report calls the halves #1 and #2."""
    report = StepReport(
        tasks=("sst#1", "sst#2"),
        losses=torch.tensor([3.0, 1.0]),
        gram=torch.eye(2),
        weights=torch.ones(2),
        groups=("model",),
        seconds=0.0,
    )
    now = Progress()
    now.note(report, [StepBatch("sst", "sst", (0,))])
    assert now.losses == {"sst": 1.0}


def step(losses: dict[str, float], *rows: tuple[float, ...]) -> StepReport:
    """A step of these losses and task gradients."""
    gradients = torch.tensor(rows, dtype=torch.float64)
    return StepReport(
        tasks=tuple(losses), losses=torch.tensor([*losses.values()]), gram=gradients @ gradients.T,
        weights=torch.ones(len(losses)), groups=("model",), seconds=0.0,
    )  # fmt: skip


def test_losses_and_conflicts_are_running_means_and_the_cosine_is_the_last() -> None:
    now = Progress()
    drawn = [StepBatch("a", "a", (0,)), StepBatch("b", "b", (0,))]
    now.note(step({"a": 2.0, "b": 1.0}, (1.0, 0.0), (-1.0, 1.0)), drawn)
    assert (now.losses, now.conflicts) == ({"a": 2.0, "b": 1.0}, 1.0)
    assert now.cosine == pytest.approx(-(0.5**0.5))
    now.note(step({"a": 4.0, "b": 1.0}, (1.0, 0.0), (1.0, 0.0)), drawn)
    assert now.losses["a"] == pytest.approx(2.2)
    assert now.conflicts == pytest.approx(0.95)
    assert now.cosine == pytest.approx(1.0)


def test_the_mean_dot_product_is_over_pairs() -> None:
    rows = (1.0, 2.0), (3.0, -1.0), (0.0, 5.0)
    assert mean_dot(step(dict.fromkeys("abc", 0.0), *rows)) == pytest.approx((1 + 10 - 5) / 3)


def test_what_is_done_before_the_first_step_is_shown_as_setting_up() -> None:
    seen: list[Progress] = []
    watch = watch_of(seen.append, print)
    watch.at("reading", 1, 4)
    watch.at("waiting", 0, 0)
    assert [(one.phase, one.now) for one in seen] == [
        ("setting up", "reading, 25%"),
        ("setting up", "waiting"),
    ]
