"""What charts are made of: frames, ticks, numbers, marks."""

import re

import pytest

from gradaccord.report.svg import (
    COLOURS,
    DASHES,
    SHAPES,
    WIDTH,
    Frame,
    breakable,
    colour,
    dash,
    number,
    ticks,
)


def test_a_frame_puts_values_at_their_share_of_the_way():
    frame = Frame.around([0, 10], [0, 4], y_room=0)
    left, bottom = frame.at(0, 0)
    right, top = frame.at(10, 4)
    assert frame.at(5, 1) == pytest.approx(((left + right) / 2, bottom + (top - bottom) / 4))
    assert left < right
    assert top < bottom


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3, 7), (1e-7, 4e-7), (12000, 98000), (0.999, 1.001)]
)
def test_ticks_are_a_few_round_numbers_inside(low, high):
    found = ticks(low, high)
    assert 3 <= len(found) <= 7
    assert all(low - 1e-9 * abs(low) <= value <= high + 1e-9 * abs(high) for value in found)
    assert len({number(value) for value in found}) == len(found)


def test_no_tick_is_cut_off_at_the_edge():
    svg = Frame.around([300, 1200], [0, 1]).axes("x", "y")
    places = re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="tick mid">([^<]+)', svg)
    assert places[-1][1] == "1200"
    for x, shown in places:
        assert float(x) + 3.5 * len(shown) <= WIDTH


def test_a_long_name_is_broken_between_its_options():
    assert (
        breakable("reptile:inner_steps=20,outer_lr=1") == "reptile:<wbr>inner_steps=20,<wbr>outer_lr=1"
    )
    assert breakable("<b>, x") == "&lt;b&gt;, x"


def test_numbers_are_short():
    shown = [number(v) for v in (0, 0.25, 12000, 2500000, 0.000025, -0.5, 0.1 + 0.2)]
    assert shown == ["0", "0.25", "12k", "2.5M", "2.5e-05", "-0.5", "0.3"]


def test_methods_differ_by_more_than_colour():
    assert len(set(COLOURS)) == len(set(DASHES)) == 8
    assert len({(colour(i), dash(i)) for i in range(24)}) == 24
    assert len(set(SHAPES)) == len(SHAPES)
