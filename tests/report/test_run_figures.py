"""The figures of a page: all there, and true to the results."""

import re

from report_support import results_of


def test_every_figure_is_there_and_says_what_it_shows(page):
    expected = {
        "figure-train-loss", "figure-dev-average", "figure-dev-mood", "figure-dev-share",
        "figure-step-dot", "figure-step-cosine", "figure-step-conflicts", "figure-task-cosine",
        "figure-forest", "figure-trade-off", "figure-cosines-sum", "figure-cosines-pcgrad",
        "figure-distance",
    }  # fmt: skip
    assert expected <= set(page.figures)
    assert any(name.startswith("figure-confusion-") and name.endswith("-mood") for name in page.figures)
    assert any(
        name.startswith("figure-histogram-") and name.endswith("-share") for name in page.figures
    )
    for picture in (e for e in page.all if e.tag == "svg"):
        if "aria-hidden" not in picture.attributes:
            assert picture.attributes["role"] == "img"
            assert len(picture.attributes["aria-label"]) > 30
    for figure in (e for e in page.all if e.tag == "figure"):
        assert [s for s in figure.below("svg") if s.attributes.get("role") == "img"]


def test_confusions_count_all_seeds(page, comparison):
    (name,) = [n for n in page.figures if re.fullmatch("figure-confusion-sum-mood", n)]
    (figure,) = [e for e in page.all if e.attributes.get("id") == name]
    shown = sorted(int(e.text) for e in figure.below("text") if e.text.isdigit())
    summed = [0] * 4
    for seed in (0, 1):
        counts = results_of(comparison, "sum", seed)["errors"]["mood"]["confusion"]["counts"]
        summed = [a + b for a, b in zip(summed, [c for row in counts for c in row], strict=True)]
    assert shown == sorted(summed)
