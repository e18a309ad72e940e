"""Records of few-shot runs: written from a run folder, read again, damaged ones refused."""

from __future__ import annotations

import pytest

pytest.importorskip("PIL")

from few_shot_runs import newest_state, write_patterns

from gradaccord.data.images.class_splits import load
from gradaccord.meta.records import read_records, record_run
from gradaccord.meta.run import Run, validation_curve
from gradaccord.meta.settings import settings_for

SMALL = {
    "filters": 4, "queries": 2, "tasks": 2, "inner_steps": 2, "iterations": 4, "validate_every": 2,
    "validation_tasks": 3, "test_tasks": 6, "test_queries": 2,
}  # fmt: skip


def test_a_run_is_recorded_and_read(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))
    splits = load(write_patterns(tmp_path / "patterns.zip"))
    settings = settings_for("fomaml", data="patterns.zip", data_dir="somewhere", **SMALL)
    run = Run(settings, splits, tmp_path / "run", seed=3)
    assert run.train()
    tested = run.test()
    spent = newest_state(tmp_path / "run")["processor_seconds"]
    Run(settings, splits, tmp_path / "run", seed=3).save()
    assert 0 < spent < newest_state(tmp_path / "run")["processor_seconds"]  # goes on from there
    record = record_run(tmp_path / "run", splits, shots=[1, 3], modes=[False, True], tasks=6)
    assert [(t.shots, t.transductive) for t in record.tests] == [
        (1, False), (1, True), (3, False), (3, True)
    ]  # fmt: skip
    assert record.tests[0].accuracy == pytest.approx(tested.single.value, abs=1e-4)
    assert record.tests[0].interval == pytest.approx(tested.single.interval, abs=1e-4)
    assert (record.seed, record.iterations, record.finished) == (3, 4, True)
    assert record.curve == validation_curve(tmp_path / "run")
    assert record.core_hours is not None
    assert 0 <= record.core_hours < 1
    assert "torch" in record.versions
    assert record.settings.data_dir is None  # a path of this machine
    path = record.write(tmp_path / "records")
    assert path.name == "patterns-5way-1shot-fomaml-seed-3.json"
    assert read_records(tmp_path / "records") == [record]
    path.write_text("{}")
    with pytest.raises(ValueError, match="is no record of a few-shot run: record it again"):
        read_records(tmp_path / "records")
