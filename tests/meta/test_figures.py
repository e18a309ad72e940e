"""Figures of few-shot runs: what is drawn are the numbers that were given."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("matplotlib")

from gradaccord.meta import Task
from gradaccord.meta.evaluation import Evaluation
from gradaccord.meta.figures import (
    adaptation_figure,
    episode_figure,
    sharing_figure,
    shorten,
    validation_figure,
    write,
)


def drawn(axes):
    """Each line's points, by its label."""
    return {line.get_label(): [tuple(map(float, p)) for p in line.get_xydata()] for line in axes.lines}


def test_a_validation_curve_is_the_mean_over_what_all_seeds_reached():
    seeds = [[(0, 20.0, 1.0), (10, 40.0, 1.0), (20, 60.0, 1.0)], [(0, 30.0, 2.0), (10, 50.0, 2.0)]]
    (axes,) = validation_figure({"MAML": seeds, "Reptile": seeds[:1]}, "own", chance=20).axes
    lines = drawn(axes)
    assert lines["MAML"] == [(0, 25), (10, 45)]
    assert lines["Reptile"] == [(0, 20), (10, 40), (20, 60)]
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    assert (low, high) == (20, 50)  # the range over seeds
    assert axes.get_legend().get_title().get_text() == "band: range over seeds"
    assert "chance 20 %" in [text.get_text() for text in axes.texts]
    (alone,) = validation_figure({"MAML": seeds[:1]}).axes
    assert tuple(alone.collections[0].get_datalim(alone.transData).intervaly) == (19, 61)


def test_sharing_is_drawn_by_inner_step_as_the_mean_over_seeds():
    def log(*values):
        return [
            {"iteration": i, "sigma_m": [v, v / 2], "sigma_lambda": [0.5, v]}
            for i, v in enumerate(values)
        ]

    left, right = sharing_figure({"0": log(0.2, 0.4), "1": log(0.4, 0.6), "2": []}).axes
    assert drawn(left)["1"] == [(0, pytest.approx(0.3)), (1, pytest.approx(0.5))]
    assert drawn(left)["2"] == [(0, pytest.approx(0.15)), (1, pytest.approx(0.25))]
    assert drawn(right)["1"] == [(0, 0.5), (1, 0.5)]


def test_adaptation_is_drawn_from_step_0_with_its_mode():
    result = Evaluation(60.0, 2.0, (20.0, 50.0, 60.0), (1.0, 2.0, 2.0), 30, 2, True)
    (axes,) = adaptation_figure({"MAML": result}, trained_steps=1).axes
    assert drawn(axes)["MAML"] == [(0, 20), (1, 50), (2, 60)]
    assert axes.get_ylabel() == "test accuracy, % (transductive, 30 tasks)"
    assert axes.get_legend() is None


def test_an_episode_marks_the_queries_that_were_answered_wrongly():
    labels = torch.tensor([0, 1, 1, 0])
    images = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    task = Task(images[:2], labels[:2], images, labels)
    figure = episode_figure(task, ["a", "b" * 30], torch.tensor([0, 1, 0, 0]))
    support, query = figure.axes
    assert (len(support.images), len(query.images)) == (2, 4)
    (frame,) = query.patches
    assert (round(frame.get_x()), round(frame.get_y())) == (1, 1)  # the second query of class 1
    assert [text.get_text() for text in query.texts] == ["0"]
    assert [t.get_text() for t in support.get_yticklabels()] == ["a  0", f"…{'b' * 23}  1"]


def test_long_names_keep_their_end():
    assert shorten("x" * 24) == "x" * 24
    assert shorten("y" + "x" * 24) == "…" + "x" * 23


def test_a_figure_is_written_by_its_suffix_the_same_every_time(tmp_path):
    written = [
        write(validation_figure({"MAML": [[(0, 20.0, 1.0)]]}), tmp_path / name / "one")
        for name in ("first", "second")
    ]
    assert [path.name for path in written] == ["one.png"] * 2
    first, second = (path.read_bytes() for path in written)
    assert first[:4] == b"\x89PNG"
    assert first == second
