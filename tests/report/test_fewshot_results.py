"""Recorded few-shot runs in a page: table, curves, and whether the page is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from gradaccord.meta.records import FewShotRecord, TestAccuracy, read_records
from gradaccord.meta.settings import settings_for
from gradaccord.report.fewshot_results import BEGIN, END, results_section, write_results

ROOT = Path(__file__).parents[2]


def is_current(page: Path, folder: Path) -> bool:
    shown = page.read_text().partition(BEGIN)[2].partition(END)[0]
    return shown.strip() == results_section(read_records(folder)).strip()


def test_the_few_shot_page_shows_all_records():
    page, folder = ROOT / "docs" / "fewshot.md", ROOT / "results" / "fewshot"
    assert is_current(page, folder), "run: gradaccord fewshot docs"


def test_records_become_a_table_and_curves(tmp_path):
    page, folder = tmp_path / "page.md", tmp_path / "records"
    page.write_text(f"Before.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    assert not is_current(page, folder)
    record = FewShotRecord(
        name="one", settings=settings_for("reptile", data="omniglot"), seed=4, commit="abc",
        versions={}, iterations=50_000, finished=True, best_iteration=49_000, core_hours=2.5,
        training_hours=2.0, curve=[(0, 20.0, 0.5), (50_000, 95.0, 0.4)],
        tests=[TestAccuracy(shots=1, transductive=False, accuracy=94.5, interval=0.4, tasks=600)],
    )  # fmt: skip
    record.save(folder)
    _, figure = write_results(page, folder)
    text = page.read_text()
    row = "| reptile | omniglot | 5, 1 | no | 94.50 ± 0.40 | 95.39 | 4 | 50,000 | 2.50 |"
    assert row in text
    assert "old" not in text
    assert text.startswith("Before.")
    assert text.endswith("After.\n")
    assert f"(figures/{figure.name})" in text
    assert figure.exists()
    assert is_current(page, folder)
    record.model_copy(update={"name": "two", "core_hours": None}).save(folder)
    assert not is_current(page, folder)
    slower = record.settings.changed(inner_lr=0.0002)
    record.model_copy(update={"name": "three", "settings": slower}).save(folder)
    write_results(page, folder)
    assert "| reptile, inner rate 0.0002 |" in page.read_text()  # not another seed of the same runs
    assert "| reptile, inner rate 0.001 |" in page.read_text()
    write_results(page, folder)
    assert "| 4 | 50,000 | not recorded (training took 2.00 h) |" in page.read_text()
    page.write_text("no marks")
    with pytest.raises(ValueError, match="has no place for the results"):
        write_results(page, folder)
