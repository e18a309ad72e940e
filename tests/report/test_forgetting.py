"""Masked-LM losses: left out unless measured, texts of trained tasks apart from the others."""

from report_support import Page, results_of

from gradaccord.report.data import read_report_data
from gradaccord.report.page import render


def test_forgetting_is_left_out_unless_measured(page):
    assert not [name for name in page.figures if "forgetting" in name]
    assert "forgetting" not in page.tables


def test_forgetting_tells_seen_texts_from_unseen_ones(forgotten):
    page = Page.of(render(read_report_data(forgotten)))
    headings, *rows = page.table("forgetting")
    assert headings == ["method", "mood (seen)", "unseen news (unseen)", "wiki"]
    last = len(results_of(forgotten, "sum", 0)["evaluations"]) - 1
    assert rows[0] == ["sum", *(f"{x + last:.3f} ± 0.000" for x in (2, 3, 4))]
    titles = [title for title in page.headings if title.startswith("Masked-LM loss: ")]
    assert [title.removeprefix("Masked-LM loss: ") for title in titles] == [
        "texts seen in training (mood)", "texts unseen in training (unseen news)", "wiki",
    ]  # fmt: skip
