"""A few-shot run as an experiment."""

from __future__ import annotations

from special_entries import TEXT

from gradaccord.reproduce.entry import read_entry
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import read_records
from gradaccord.reproduce.run import Folders, run_entry
from gradaccord.reproduce.special.fewshot import share


def test_a_few_shot_run_gives_accuracy_over_training(tmp_path):
    config = "{data: glyphs, iterations: 2, validate_every: 1, validation_tasks: 2, test_tasks: 2, "
    config += "curve_tasks: 2, tasks: 2, filters: 4, share: true}"
    entry = read_entry("gradient-sharing-zz", TEXT.format(kind="fewshot", config=config))
    folders = Folders(None, tmp_path / "runs", tmp_path / "results")
    shown = []
    assert (
        run_entry(entry, plan(entry), folders, show=lambda progress: shown.append(progress.share)) == {}
    )
    assert shown[-1] == 1.0
    (record,) = read_records(folders.results, entry.name)
    assert 0 <= record.value() <= 100
    assert record.chance == {"glyphs": {"chance": 20.0}}
    assert [point.step for point in record.curve] == [0, 1, 2]
    first, *_, last = record.curve
    assert "sigma_m.1" not in first.values  # before any step there is nothing to report
    assert 0 < last.values["sigma_m.1"] < 1
    assert 0 < last.values["sigma_lambda.1"] < 1


def test_the_share_of_a_run_is_that_of_its_last_whole_line(tmp_path):
    settings = {"data": "glyphs", "iterations": 8}
    assert share(settings, tmp_path) == 0
    (tmp_path / "log.jsonl").write_text(
        '{"iteration": 1}\n{"iteration": 2, "loss": 1}\n{"iteration": 3, "lo'
    )
    assert share(settings, tmp_path) == 0.25
