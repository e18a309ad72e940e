"""Curves and maps of an entry's runs: means over seeds with their errors, an arm a line."""

import pytest
from reproduce_toy import TRIO, made_record

from gradaccord.reproduce.curve_figures import curve_figures
from gradaccord.reproduce.entry import Panel
from gradaccord.reproduce.plan import plan

pytest.importorskip("matplotlib")

ARMS = ("plain", "pcgrad")
MATRIX = {"tasks": ["a", "b"], "matrix": [[1.0, 0.5], [0.5, 1.0]], "mean": 0.5}


def with_runs(trio, results, *panels, **more):
    """The toy entry with a figure, and records of two arms, three seeds and two moments each."""
    entry = trio.model_copy(update={"figure": panels})
    for planned in plan(entry, budget="epochs", only=ARMS):
        base = planned.seed + 10 * ARMS.index(planned.arm)
        curve = [
            {
                "step": step, "gradients": 2.0 * step, "seconds": step + planned.seed,
                "values": {"average": base + step, "masked_lm.de": base, "masked_lm.en": base + 2.0},
            }
            for step in (4, 8)
        ]  # fmt: skip
        made_record(planned, 0.0, curve=curve, **more).save(planned.path(results).parent)
    return {TRIO: entry}


def lines(drawn):
    """Panel by panel, the label and points of every line."""
    return [
        [
            (line.get_label(), line.get_xdata().tolist(), line.get_ydata().tolist())
            for line in axes.lines
        ]
        for axes in drawn.make().axes
    ]


def test_a_panel_for_each_quantity_and_variant_with_means_over_seeds(trio, tmp_path):
    panels = Panel(y="average"), Panel(x="seconds", y="masked_lm.*", label="loss")
    (drawn,) = curve_figures(with_runs(trio, tmp_path, *panels), tmp_path)
    assert (drawn.entry, drawn.file) == (TRIO, f"results-{TRIO}.png")
    assert "means over seeds (3)" in drawn.caption
    found = lines(drawn)
    assert len(found) == 2 * len(trio.small.variants)
    (first, x, y), (second, _, other) = found[0]
    assert {first, second} == set(ARMS)
    assert x == [8.0, 16.0]
    assert sorted([y, other]) == [[5.0, 9.0], [15.0, 19.0]]
    _, seconds, losses = next(line for line in found[1] if line[0] == "plain")
    assert (seconds, losses) == ([5.0, 9.0], [2.0, 2.0])  # of both texts
    drawn.save(tmp_path / drawn.file)


def test_curves_of_steps_come_from_the_moving_means(trio, tmp_path):
    steps = {"dot_steps": [1.0, 2.0], "dot": [0.5, 0.25]}
    entries = with_runs(trio, tmp_path, Panel(x="step", y="alignment.dot"), alignment=steps)
    (drawn,) = curve_figures(entries, tmp_path)
    assert lines(drawn)[0][0][1:] == ([1.0, 2.0], [0.5, 0.25])


def test_what_was_not_measured_has_no_line(trio, tmp_path):
    (drawn,) = curve_figures(with_runs(trio, tmp_path, Panel(y="distance")), tmp_path)
    assert not any(lines(drawn))


def test_cosines_of_pairs_are_a_map_for_each_arm(trio, tmp_path):
    entries = with_runs(trio, tmp_path, Panel(matrix="cosines"))
    assert not curve_figures(entries, tmp_path)
    entries = with_runs(trio, tmp_path, Panel(matrix="cosines"), cosines=MATRIX)
    (drawn,) = curve_figures(entries, tmp_path)
    maps = [axes for axes in drawn.make().axes if axes.images]
    assert {axes.get_title() for axes in maps} == {f"{arm}, mean 0.50" for arm in ARMS}
    assert maps[0].images[0].get_array().tolist() == MATRIX["matrix"]


def test_without_runs_or_without_a_figure_there_is_none(trio, tmp_path):
    assert not curve_figures(
        {TRIO: trio.model_copy(update={"figure": (Panel(y="average"),)})}, tmp_path
    )
    with_runs(trio, tmp_path, Panel(y="average"))
    assert not curve_figures({TRIO: trio}, tmp_path)


@pytest.mark.parametrize("wrong", [{}, {"y": "average", "matrix": "cosines"}])
def test_a_panel_is_of_curves_or_a_map(wrong):
    with pytest.raises(ValueError, match="give `y` for curves, or `matrix` for a map"):
        Panel(**wrong)


def test_runs_at_another_budget_are_other_lengths_and_have_no_line(trio, tmp_path):
    entries = with_runs(trio, tmp_path, Panel(y="average"))
    before = lines(*curve_figures(entries, tmp_path))
    for planned in plan(entries[TRIO], budget="gradients"):
        curve = [{"step": 1, "gradients": 1, "seconds": 1, "values": {"average": 99.0}}]
        made_record(planned, 0.0, curve=curve).save(planned.path(tmp_path).parent)
    assert lines(*curve_figures(entries, tmp_path)) == before
