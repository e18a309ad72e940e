"""A few-shot run as an experiment."""

from __future__ import annotations

from special_entries import TEXT

from gradaccord.reproduce.entry import read_entry
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import read_records
from gradaccord.reproduce.run import Folders, run_entry


def test_a_few_shot_run_gives_accuracy_over_training(tmp_path):
    config = "{data: glyphs, iterations: 2, validate_every: 1, validation_tasks: 2, test_tasks: 2, "
    config += "curve_tasks: 2, tasks: 2, filters: 4}"
    entry = read_entry("gradient-sharing-zz", TEXT.format(kind="fewshot", config=config))
    folders = Folders(None, tmp_path / "runs", tmp_path / "results")
    assert run_entry(entry, plan(entry), folders) == {}
    (record,) = read_records(folders.results, entry.name)
    assert 0 <= record.value() <= 100
    assert record.chance == {"glyphs": {"chance": 20.0}}
    assert [point.step for point in record.curve] == [0, 1, 2]
