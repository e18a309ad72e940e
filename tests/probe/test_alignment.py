"""Alignment over training: moving means of known numbers, and what any method reports."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from toy import Vectors, batch, loss_of, losses_of, trunk

import gradaccord
from gradaccord.core.report import StepReport
from gradaccord.probe.alignment import AlignmentProbe


def report(
    gram: list[list[float]], losses: tuple[float, ...] = (1.0, 1.0), finite: bool = True
) -> StepReport:
    table = torch.tensor(gram, dtype=torch.float64)
    tasks = tuple(f"t{i}" for i in range(len(table)))
    given = torch.tensor(losses[: len(table)], dtype=torch.float64)
    return StepReport(tasks, given, table, torch.ones(len(table)), ("model",), 0.0, finite)


def pair(dot: float) -> StepReport:
    return report([[1.0, dot], [dot, 4.0]])


def test_the_moving_mean_of_known_numbers() -> None:
    probe = AlignmentProbe(window=3)
    for dot in (1.0, 2.0, 6.0, 1.0):
        probe.update(pair(dot / 4))
    curve = probe.curve("dot")
    assert curve.steps == (1, 2, 3, 4)
    assert curve.values == pytest.approx([0.25, 0.375, 0.75, 0.75])
    assert probe.curve("cosine").values == pytest.approx([v / 2 for v in curve.values])
    assert probe.curve("loss").values == (1.0, 1.0, 1.0, 1.0)
    assert probe.to_floats()["alignment/dot"] == pytest.approx(0.75)


def test_mean_over_the_pairs_of_tasks() -> None:
    probe = AlignmentProbe()
    probe.update(report([[1, 0.5, -0.5], [0.5, 1, 0.3], [-0.5, 0.3, 1]], (1.0, 2.0, 6.0)))
    assert probe.curve("dot").values == pytest.approx([0.1])
    assert probe.curve("cosine").values == pytest.approx([0.1])
    assert probe.curve("loss").values == pytest.approx([3.0])


def test_only_points_beyond_ten_deviations_are_dropped() -> None:
    """Of n points one alone can lie sqrt(n - 1) deviations from the mean: 10.05 in 102, 9.95 in 100."""
    for n, dropped in ((100, 0), (101, 0), (102, 1), (400, 1)):
        probe = AlignmentProbe()
        for step in range(n):
            probe.update(pair(0.9 if step == n // 2 else 0.1))
        curve = probe.curve("dot")
        assert curve.dropped == dropped, n
        assert len(curve.values) == n - dropped
        if dropped:
            assert n // 2 + 1 not in curve.steps
            assert curve.values == pytest.approx([0.1] * (n - 1))
            assert probe.to_floats()["alignment/dot"] == pytest.approx(0.1)
    assert AlignmentProbe(sigmas=math.inf).curve("dot").dropped == 0


def test_reports_without_a_measured_pair_do_not_count() -> None:
    probe = AlignmentProbe()
    model = trunk()
    probe.update(gradaccord.Sum(model, measure=False).backward(losses_of(model)))
    probe.update(gradaccord.Sum(model).backward(losses_of(model, ["a"])))
    probe.update(report([[1.0, math.inf], [math.inf, 1.0]], finite=False))
    assert (probe.step, probe.steps) == (3, [])
    assert probe.curve().values == ()
    assert math.isnan(probe.to_floats()["alignment/cosine"])
    probe.update(report([[1.0, 0.0], [0.0, 0.0]]))  # a dot product, but no cosine
    assert probe.curve("dot").steps == (4,)
    assert probe.curve("cosine").steps == ()
    assert probe.curve("cosine").dropped == 0


@pytest.mark.parametrize("method", [gradaccord.Sum, gradaccord.GradVac])
def test_it_reads_what_any_method_reports(method: Any) -> None:
    model = Vectors(torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    probe = AlignmentProbe()
    probe.update(method(model).backward(model.losses()))
    assert probe.curve("dot").values == pytest.approx([1.0])
    assert probe.curve("cosine").values == pytest.approx([math.sqrt(0.5)])


def test_pairs_of_dotprod_are_read_and_waiting_batches_are_not() -> None:
    model = trunk()
    method = gradaccord.DotProd(model)
    probe = AlignmentProbe()
    for i in range(4):
        given = method.backward({"a": partial(loss_of, model, "a", *batch(i))})
        probe.update(given)
    assert probe.curve("dot").steps == (2, 4)


def test_a_resumed_alignment_probe_goes_on() -> None:
    whole, first, second = AlignmentProbe(window=5), AlignmentProbe(window=5), AlignmentProbe(window=5)
    dots = torch.rand(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    for i, dot in enumerate(dots):
        whole.update(pair(dot))
        (first if i < 9 else second).update(pair(dot))
        if i == 8:
            second.load_state_dict(first.state_dict())
    assert second.curve("dot") == whole.curve("dot")
    assert second.to_floats() == whole.to_floats()


def test_unknown_quantities_and_windows_are_named() -> None:
    with pytest.raises(ValueError, match="`quantity` is 'norm'"):
        AlignmentProbe().curve("norm")
    with pytest.raises(ValueError, match="`window` is 0"):
        AlignmentProbe(window=0)
