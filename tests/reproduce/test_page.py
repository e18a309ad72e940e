"""The pages of results and claims: up to date, and made of records alone."""

import re
from pathlib import Path

import pytest
from reproduce_toy import TRIO, save_made

from gradaccord.reproduce.entry import all_entries
from gradaccord.reproduce.figures import drawings
from gradaccord.reproduce.page import pages, write_docs

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["results.md", "claims.md"])
def test_the_pages_are_up_to_date(page):
    """Else: gradaccord reproduce --write-docs."""
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == pages(all_entries(), ROOT / "results")[
        page
    ]


def test_the_figures_are_there():
    for drawn in drawings(all_entries(), ROOT / "results"):
        assert (ROOT / "docs" / "figures" / drawn.file).exists()


@pytest.fixture
def made(trio, tmp_path):
    absent = all_entries()["dotprod-table-6"]
    absent = absent.model_copy(update={"small": None, "recipe_only": "the pairs of LDC2012T21"})
    entries = {TRIO: trio, absent.name: absent}
    spread = (0.0, 0.2, -0.1)
    save_made(
        trio, tmp_path / "results",
        lambda planned: 60 + planned.seed + (5 + spread[planned.seed]) * (planned.arm == "pcgrad"),
    )  # fmt: skip
    return entries, tmp_path / "results", tmp_path / "docs"


def test_results_show_the_primary_test_the_tables_and_what_is_not_run(made):
    pytest.importorskip("matplotlib")
    entries, results, docs = made
    written = write_docs(entries, results, docs)
    assert {path.name for path in written} == {"results-primary.png", "results.md", "claims.md"}
    assert all(path.stat().st_size for path in written)
    text = (docs / "results.md").read_text()
    row = f"| [{TRIO}](#{TRIO}) | pcgrad against plain, average | +5.03 [4.65, 5.41] |"
    assert row in text
    assert "| pcgrad | 66.0 ± 0.6 | 60 | 70 |" in text
    assert "In place of the published setting: a tiny encoder with random weights for BERT." in text
    assert re.search(r"\| dotprod-table-6 \| Gigaword with Pegasus \| recipe only: .*LDC2012T21", text)
    assert pages(entries, results) == pages(entries, results)


def test_claims_have_evidence_entry_result_and_verdict(made):
    entries, results, _ = made
    lines = pages(entries, results)["claims.md"].splitlines()
    (line,) = [line for line in lines if line.startswith("| PCGrad beats the sum.")]
    evidence, entry, result, verdict = line.strip("| ").split(" | ")[1:]
    assert evidence == "Table 0. plain: film 50; pcgrad: film 60, bank 70."
    assert entry == f"[{TRIO}](results.md#{TRIO})"
    assert result.startswith("pcgrad − plain: +5.03 [4.65, 5.41] (average, 3 pairs, p ")
    assert verdict == "holds"
    (line,) = [line for line in lines if "| dotprod-table-6 |" in line]
    assert line.endswith("| Missing: the pairs of LDC2012T21. | not testable here |")
