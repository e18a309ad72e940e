"""Records of few-shot runs: written from a run folder, read again, damaged ones refused."""

from __future__ import annotations

import pytest

pytest.importorskip("PIL")

from few_shot_runs import newest_state, write_patterns

from gradaccord.data.images.class_splits import load
from gradaccord.meta.records import FewShotRecord, read_records, record_name, record_run
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
    path = record.save(tmp_path / "records")
    assert path.name == "patterns-5way-1shot-fomaml-2tasks-4iterations-rate0.1-seed3.json"
    assert read_records(tmp_path / "records") == [record]
    path.write_text("{}")
    with pytest.raises(ValueError, match="is damaged .*: remove it, and record"):
        read_records(tmp_path / "records")


def test_every_setting_that_tells_runs_apart_is_in_the_name():
    start = {"data": "glyphs", "iterations": 9}
    changes = (
        {}, {"data": "omniglot"}, {"ways": 6}, {"shots": 2}, {"algorithm": "meta-sgd"}, {"share": True},
        {"tasks": 7}, {"iterations": 10}, {"minutes": 1.5}, {"inner_lr": 0.05},
    )  # fmt: skip
    names = {record_name(settings_for(**(start | change)), 0) for change in changes}
    assert len(names | {record_name(settings_for(**start), 1)}) == len(changes) + 1


def made(**changes):
    values = {
        "name": "one", "settings": settings_for("maml", iterations=9), "seed": 0, "commit": "a" * 40,
        "versions": {}, "iterations": 5, "finished": False, "best_iteration": 5, "core_hours": None,
        "training_hours": 0.1, "curve": [(0, 20.0, 1.0), (5, 30.0, 1.0)], "tests": [],
    }  # fmt: skip
    return FewShotRecord(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"settings": settings_for("maml", iterations=9, queries=3)}, "with queries=5 and not 3: move"),
        ({"seed": 1}, "with seed 0 and not 1: move"),
        ({"commit": "b" * 40}, "of commit a{40} and not b{40}: move"),
        ({"curve": [(0, 20.0, 1.0), (5, 31.0, 1.0)]}, "with another validation curve: move"),
    ],
)
def test_another_run_is_not_overwritten(tmp_path, changes, sentence):
    path = made().save(tmp_path)
    with pytest.raises(ValueError, match=f"is the record of another run, {sentence}"):
        made(**changes).save(tmp_path)
    assert read_records(tmp_path) == [made()]
    longer = made(curve=[*made().curve, (9, 33.0, 1.0)], iterations=9, finished=True)
    assert longer.save(tmp_path) == path  # the same run, later
    assert read_records(tmp_path) == [longer]
