"""What `landscape` shows: tables within 80 columns whose numbers are those of the result."""

from __future__ import annotations

import pytest
from printed import printed

from gradaccord.cli.landscape_screen import introduction, tables
from gradaccord.showcase.landscape.plane import STARTS
from gradaccord.showcase.landscape.runs import METHODS, SWEPT, LandscapeSettings, Result, Row

RATES = (0.003, 0.3)


def row(method, start, rate=0.01, **trapped):
    end = start[0] / 10, -1.0
    return Row(method, rate, start, 2, end, -250.4, 1.2, 0.1234, None, 0.5678, trapped)


@pytest.fixture(scope="module")
def shown():
    """Every method trapped in x1 half of the times; of the swept ones, always at the second rate."""
    starts = [tuple(start) for start in STARTS.tolist()]
    settings = LandscapeSettings(2, rates=RATES)
    rows = [row(method, start, x1=0.5) for method in METHODS for start in starts]
    sweep = [
        row(method, start, rate, x2=float(rate == RATES[1]))
        for method in SWEPT for rate in RATES for start in starts
    ]  # fmt: skip
    return printed(tables(Result(settings=settings, rows=rows, sweep=sweep)))


def test_every_method_has_its_row_from_every_start(shown):
    for method in METHODS:
        rows = [line for line in shown.splitlines() if line.strip().startswith(f"{method} ")]
        whole = [line for line in rows if "-250 ±1 0.123 0.568 50% x1" in " ".join(line.split())]
        assert len(whole) == len(STARTS), method


def test_rates_stand_side_by_side(shown):
    rows = [line.split() for line in shown.splitlines()]
    assert ["trapped", "0.003", *["0%"] * len(SWEPT)] in rows
    assert ["0.3", *["100%"] * len(SWEPT)] in rows


def test_nothing_is_cut_at_80_columns(shown):
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_introduction_counts_seeds():
    assert "1 seed, 20 steps" in introduction(LandscapeSettings(1, 20, 3))
    assert "2 seeds, 20 steps; Reptiles: 3 outer steps" in introduction(LandscapeSettings(2, 20, 3))
    assert max(map(len, introduction(LandscapeSettings()).splitlines())) <= 80
