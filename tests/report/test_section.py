"""What a page is made of: what is folded, sorted and left out."""

from __future__ import annotations

import math

from gradaccord.compare.statistics import Mean
from gradaccord.report.section import (
    NONE,
    Cell,
    Figure,
    Section,
    Table,
    drawn,
    mean_cell,
    named,
    number_cell,
)


def test_a_table_is_folded_when_it_is_long_or_one_of_many():
    def table(rows, **options):
        return Table("a", "A", ["name"], [[Cell(str(i))] for i in range(rows)], **options)

    assert not table(20).folded
    assert table(21).folded
    assert table(3, one_of_many=True).folded


def test_columns_of_numbers_are_those_without_any_text():
    rows = [
        [named("a"), number_cell(0.5, "{:.1f}"), number_cell(None, "{}"), Cell("x")],
        [named("b"), number_cell(math.nan, "{:.1f}"), number_cell(3, "{}"), number_cell(1, "{}")],
    ]
    assert Table("a", "A", [*"abcd"], rows).numbers == [False, True, True, False]
    assert [cell.text for cell in rows[1]] == ["b", NONE, "3", "1"]
    assert [cell.sort for cell in rows[1]] == ["b", None, 3.0, 1.0]


def test_a_mean_is_sorted_by_its_value_and_none_is_a_dash():
    assert mean_cell(Mean.of([1.0, 3.0])) == Cell("2.00 ± 1.00", 2.0)
    assert mean_cell(Mean.of([]), 1) == Cell(NONE)


def test_a_section_without_content_is_left_out():
    assert not Section("A", legend="<p>")
    assert Section("A", sentences=["said"])
    assert Section("A", texts={"more": ""})
    empty, full = Figure("a", "A", "", ""), Figure("b", "B", "<svg/>", "")
    assert drawn([empty, full]) == [full]
