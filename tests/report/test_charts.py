"""Charts: places are right, nothing breaks on odd numbers, names from outside stay text."""

import math
import re
from itertools import pairwise

import pytest
from report_support import Page

from gradaccord.report.charts import Series, bars, dots, heat_map, histogram, line_chart, paths
from gradaccord.report.svg import (
    Frame,
    colour,
)


def test_a_line_goes_through_its_points_with_a_band_around():
    svg = line_chart(
        [Series("a", 0, [0, 1, 2, 3], [1, 3, 2, 2], [0.5, 0.5, 0.5, 0.5])], "x", "y", "Alt."
    )
    frame = Frame.around([0, 1, 2, 3], [0.5, 3.5])
    (drawn,) = re.findall(r'<polyline points="([^"]+)" fill="none" stroke="#0072B2" stroke-width="2"',
                          svg.partition("</svg>")[0])  # fmt: skip
    assert [tuple(map(float, p.split(","))) for p in drawn.split()] == [
        pytest.approx(frame.at(x, y), abs=0.06) for x, y in ((0, 1), (1, 3), (2, 2), (3, 2))
    ]
    (band,) = re.findall(r'<polygon points="([^"]+)"', svg)
    first = tuple(map(float, band.split()[0].split(",")))
    assert first == pytest.approx(frame.at(0, 1.5), abs=0.06)
    assert 'aria-label="Alt. At the end: a 2 ± 0.5."' in svg


def test_a_method_keeps_its_mark_where_another_has_no_data():
    svg = line_chart(
        [Series("a", 0, [0], [math.nan]), Series("b", 1, [0, 1], [1, 2])], "x", "y", "Alt."
    )
    assert colour(1) in svg
    assert colour(0) not in svg
    assert ">a<" not in svg


@pytest.mark.parametrize("draw", [line_chart, paths])
@pytest.mark.parametrize(
    ("x", "y"), [([3.0], [1.0]), ([0.0, 1.0], [5.0, 5.0]), ([0.0, 1.0], [0.0, math.inf])]
)
def test_lone_equal_and_infinite_values_are_drawn(draw, x, y):
    svg = draw([Series("a", 0, x, y)], "x", "y", "Alt.")
    assert "<path" in svg
    assert "<polyline" not in svg  # so few points make no curve
    assert "nan" not in svg
    assert "inf" not in svg


def test_chance_is_a_line_where_it_is_near_and_a_number_where_it_is_not():
    near = line_chart([Series("a", 0, [0, 1], [55.0, 75.0])], "x", "y", "Alt.", chance=50.0)
    (y,) = re.findall(r'y1="([\d.]+)" y2="\1" class="chance"', near)
    frame = Frame.around([0, 1], [50.0, 75.0], x_room=0.1)
    assert float(y) == pytest.approx(frame.at(0, 50.0)[1], abs=0.06)
    assert ">chance 50<" in near
    far = line_chart([Series("a", 0, [0, 1], [70.0, 75.0])], "x", "y", "Alt.", chance=20.0)
    assert 'class="chance"' not in far
    assert ">chance 20 ↓<" in far
    assert "Chance: 20." in far


def test_the_words_of_chance_stand_where_no_curve_passes():
    place = re.compile(r'<text x="([\d.]+)" y="([\d.]+)" class="label end over">chance')
    free = line_chart([Series("a", 0, [0, 1], [50.0, 75.0])], "x", "y", "Alt.", chance=50.0)
    ends_there = line_chart([Series("a", 0, [0, 1], [75.0, 51.0])], "x", "y", "Alt.", chance=50.0)
    (right, _), (moved, _) = place.findall(free)[0], place.findall(ends_there)[0]
    assert float(moved) < float(right) - 30


def test_few_points_of_several_methods_stand_beside_one_another():
    """Also where the budgets of some end a little later, as DotProd's do."""
    series = [Series(f"m{i}", i, [600 + 0.1 * i, 1200], [50.0, 60.0]) for i in range(8)]
    svg = line_chart(series, "x", "y", "Alt.")
    places = [float(x) for x in re.findall(r'transform="translate\(([\d.]+) ', svg)]
    assert len(places) == 16
    assert min(abs(a - b) for i, a in enumerate(places) for b in places[:i]) > 6
    middles = [sum(sorted(places)[k : k + 8]) / 8 for k in (0, 8)]
    frame = Frame.around([600, 1200], [50.0, 60.0], x_room=0.1)
    assert middles == pytest.approx([frame.at(x, 50)[0] for x in (600, 1200)], abs=0.5)


def test_a_zero_has_no_minus():
    svg = heat_map(["a"], [[-0.001]], "Alt.", low=-1, high=1)
    assert ">0.00<" in svg
    assert "-0.00" not in svg


def test_without_data_there_is_no_picture():
    nothing = [Series("a", 0, [], []), Series("b", 1, [1.0], [math.nan])]
    assert line_chart(nothing, "x", "y", "Alt.") == ""
    assert paths(nothing, "x", "y", "Alt.") == ""
    assert bars([("a", math.nan)], "×", "Alt.") == ""
    assert heat_map([], [], "Alt.", low=-1, high=1) == ""
    assert histogram([0, 1], [0], "x", "Alt.") == ""


def test_bars_are_as_long_as_their_numbers():
    svg = bars([("a", 1.0), ("b", 2.5), ("gone", math.nan)], "×", "Alt:")
    one, other = (float(w) for w in re.findall(r'<rect x="0" y="\d+" width="([\d.]+)"', svg))
    assert other == pytest.approx(2.5 * one, rel=1e-3)
    assert "b 2.50×" in svg
    assert "gone" not in svg


def test_heat_is_signed_and_an_unknown_cell_has_none():
    svg = heat_map(["a", "b"], [[1.0, -0.5], [None, math.nan]], "Alt.", low=-1, high=1)
    cells = re.findall(r'fill="([^"]+)" fill-opacity="([\d.]+)" class="cell"><title>([^<]+)<', svg)
    assert cells == [
        ("#005AA0", "1.00", "a, a: 1.00"),
        ("#AA5000", "0.50", "a, b: -0.50"),
        ("none", "0.00", "b, a: –"),
        ("none", "0.00", "b, b: –"),
    ]
    assert "a: a 1.00, b -0.50; b: a –, b –." in svg


def test_histogram_heights_are_the_counts():
    svg = histogram([-1, 0, 1], [2, 4], "error", "Alt.")
    heights = [float(h) for h in re.findall(r'height="([\d.]+)" fill', svg)]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)


def test_names_stay_text():
    name = '"><script>x()</script>&'
    drawn = [
        line_chart([Series(name, 0, [0, 1], [1, 2])], name, name, name),
        paths([Series(name, 0, [0, 1], [1, 2])], name, name, name),
        bars([(name, 1.0)], name[:0], name),
        heat_map([name], [[1.0]], name, low=0, high=1, axes=(name, name)),
        histogram([0, 1], [1], name, name),
    ]
    for svg in drawn:
        page = Page.of(svg)
        assert not [e for e in page.all if e.tag == "script"]
        label = next(e.attributes["aria-label"] for e in page.all if "aria-label" in e.attributes)
        assert label.startswith(name)


def test_few_trials_have_no_chart_and_the_best_so_far_is_a_staircase():
    points = [(float(x), float(y), "t") for x, y in enumerate([1, 3, 2, 4])]
    assert dots(points[:3], 0, "x", "y", "Alt.") == ""
    assert dots([(1.0, y, t) for _, y, t in points], 0, "x", "y", "Alt.") == ""
    svg = dots(points, 3, "x", "y", "Alt.", [(0, 1), (1, 3), (2, 3), (3, 4)])
    (stairs,) = re.findall(r'<polyline points="([^"]+)"', svg)
    places = [tuple(map(float, p.split(","))) for p in stairs.split()]
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(places))
