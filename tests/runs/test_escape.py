"""Names and texts of strangers stay text in Markdown and in spreadsheets."""

import pytest
from markdown_it import MarkdownIt

from gradaccord.runs.escape import csv_cell, fenced, markdown

HOSTILE = "a|b`c` <script>alert(1)</script> [x](javascript:y) *z* &lt;\n# head\r\n| new | row |"


def test_markdown_shows_a_text_as_it_is():
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    shown = markdown(HOSTILE)
    page = parser.render(f"| task | kind |\n|---|---|\n| {shown} | x |\n\n* {shown}\n")
    assert "<script" not in page
    assert "<a" not in page
    assert "<em" not in page
    assert "<h1" not in page
    assert page.count("<tr>") == 2
    assert (
        page.count("a|b`c` &lt;script&gt;alert(1)&lt;/script&gt; [x](javascript:y) *z* &amp;lt;") == 2
    )


def test_usual_names_are_not_changed():
    for name in ("sst", "xnli.de", "exact_match", "dotprod:weight=0.2", "+0.20 ± 0.10", "q&a"):
        assert markdown(name) == name


def test_no_text_ends_its_code_block():
    text = "a: 1\n```\n# outside\n~~~~\n````\n"
    first, *inner, last = fenced(text, "yaml").split("\n")
    assert first == "`````yaml"
    assert last == "`````"
    assert "\n".join(inner) == text.rstrip("\n")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", " =1", "＝1"])
def test_a_spreadsheet_takes_no_text_for_a_formula(text):
    assert csv_cell(text) == "'" + text


@pytest.mark.parametrize("value", ["sum", "", "a=b", 1, -1.5, None])
def test_numbers_and_other_texts_stay(value):
    assert csv_cell(value) == value
