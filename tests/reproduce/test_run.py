"""The runs of an entry: records, budgets, resuming after a kill."""

import pytest
from reproduce_toy import runs_in_this_process

from gradaccord.reproduce.plan import missing, plan
from gradaccord.reproduce.records import read_records
from gradaccord.reproduce.run import config_of, run_entry
from gradaccord.train.loop import TrainingLoop


def test_every_run_leaves_a_record_and_is_not_repeated(trio, folders, monkeypatch):
    planned = plan(trio, seeds=1, variants=["two"], only=["plain", "paired"])
    said = []
    with runs_in_this_process():
        assert run_entry(trio, planned, folders, say=said.append) == {}
        assert missing(planned, folders.results) == []
        assert len(said) == 4
        records = {(r.arm, r.budget): r for r in read_records(folders.results, trio.name)}
        # Half an epoch of 64 + 64 examples in batches of 4: 16 batches, and as many gradients.
        assert records["plain", "epochs"].cost.gradients == 16
        assert records["paired", "gradients"].cost.gradients == 16
        assert records["paired", "epochs"].settings["train"]["lr"] == 2e-3
        monkeypatch.setattr(TrainingLoop, "take_step", None)
        assert run_entry(trio, planned, folders) == {}
    left = {path.name for path in folders.out.rglob("*") if path.is_dir()}
    assert not left & {"model", "checkpoints", "best"}  # weights are not kept


def test_a_killed_run_is_resumed_and_ends_as_if_it_had_not_been(trio, folders, monkeypatch, tmp_path):
    planned = plan(trio, seeds=1, variants=["two"], only=["plain"], budget="epochs")
    taken, steps = TrainingLoop.take_step, []

    def step(loop, log):
        if len(steps) == 5:
            steps.append("killed")
            raise KeyboardInterrupt
        steps.append(loop.step)
        return taken(loop, log)

    monkeypatch.setattr(TrainingLoop, "take_step", step)
    with runs_in_this_process():
        with pytest.raises(KeyboardInterrupt):
            run_entry(trio, planned, folders)
        assert missing(planned, folders.results) == planned
        run_entry(trio, planned, folders)
        (resumed,) = read_records(folders.results, trio.name)
        assert steps == [0, 1, 2, 3, 4, "killed", 5, 6, 7]
        folders.out, folders.results = tmp_path / "again", tmp_path / "again-results"
        run_entry(trio, planned, folders)
    (whole,) = read_records(folders.results, trio.name)
    assert (whole.dev, whole.train_loss, whole.alignment) == (
        resumed.dev, resumed.train_loss, resumed.alignment,
    )  # fmt: skip


def test_a_run_that_fails_is_named_and_has_no_record(trio, folders):
    planned = plan(trio, seeds=1, variants=["one"], only=["plain"], budget="epochs")
    (folders.out / trio.name).mkdir(parents=True)
    planned[0].folder(folders.out / trio.name).mkdir()
    (planned[0].folder(folders.out / trio.name) / "checkpoints").write_text("a file in the way")
    failures = run_entry(trio, planned, folders)
    assert list(failures) == ["one, plain, epochs, seed 0"]
    assert missing(planned, folders.results) == planned


def test_files_start_at_the_data_folder_and_gradients_are_those_of_the_variant(trio, folders):
    (planned,) = plan(trio, seeds=2, variants=["two"], only=["paired"], budget="gradients")[1:]
    config = config_of(planned, folders.data)
    assert config.tasks["film"].files["train"] == str(folders.data / "film.train.csv")
    assert config.model.name == str(folders.data / "bert")
    assert (config.train.gradients, config.train.epochs, config.train.seed) == (16, None, 1)
