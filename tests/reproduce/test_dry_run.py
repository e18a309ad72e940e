"""A dry run of an entry: settings, times, nothing left behind."""

import re

from gradaccord.reproduce.dry_run import dry_run
from gradaccord.reproduce.entry import all_entries
from gradaccord.reproduce.plan import plan
from gradaccord.runs.duration import duration
from gradaccord.train.dry_run import Estimate


def test_every_arm_is_timed_and_its_settings_are_shown(trio, trio_data, monkeypatch):
    monkeypatch.setattr(
        "gradaccord.reproduce.dry_run.estimate",
        lambda config, data: Estimate(
            step_seconds=1.0,
            steps=30 if config.method.name == "sum" else 60,
            gradients=1.0,
            evaluations=2,
            dev_seconds=5.0,
            test_seconds=5.0,
            probe_seconds=10.0 if config.method.name == "sum" else 40.0,
            memory_mb=12.0,
        ),
    )
    settings, times, whole = dry_run(trio, "small", plan(trio, seeds=2), trio_data)
    assert "in place of the published setting: a tiny encoder with random weights for BERT" in settings
    assert any(line.startswith("  train: {epochs: 0.5, lr: 0.001, batch_size: 8") for line in settings)
    assert [line.split() for line in times[2:4]] == [
        ["one,", "epochs,", "plain", "2", "30", duration(60), "12"],
        ["one,", "epochs,", "pcgrad", "2", "60", duration(120), "12"],
    ]
    assert len(times) == 2 + 10
    # Two variants, two seeds: a minute for each plain arm at two budgets, two for the rest.
    assert whole == ["20 runs, 32:00 one after another. The entry states 0.01 core-hours."]


def test_real_steps_are_timed(trio, trio_data):
    planned = plan(trio, seeds=1, only=["paired"], variants=["two"])
    _, times, whole = dry_run(trio, "small", planned, trio_data)
    assert [line.split()[4] for line in times[2:]] == ["8", "8"]  # pairs of batches
    assert whole[0].startswith("2 runs, 0:")


def test_without_data_the_settings_are_shown_and_the_files_named(trio, tmp_path):
    settings, missing = dry_run(trio, "small", plan(trio), tmp_path)
    assert settings[0] == "controls-zz-trio, small: Two small tasks in files"
    assert "film.train.csv (the tests of this project)" in missing[0]


def test_experiments_on_made_up_problems():
    entries = all_entries()
    valley = entries["controls-valley"]
    _, times, _ = dry_run(valley, "small", plan(valley, seeds=1, only=["sum"]), None)
    assert re.search(r"main, epochs, sum +1 +20,000 +\d+:\d\d", times[-1])
    plane = entries["sequential-reptile-figure-3"]
    assert "not timed" in list(dry_run(plane, "small", plan(plane), None))[-1][0]
