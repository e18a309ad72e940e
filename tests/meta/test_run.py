"""A few-shot run: resume, damaged checkpoints, one process at a time, schedules, the best kept."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("PIL")

from few_shot_runs import final_state, newest_state, same, write_patterns

from gradaccord.data.images.class_splits import load
from gradaccord.meta.algorithms import ALGORITHMS
from gradaccord.meta.progress import RunProgress
from gradaccord.meta.run import Run
from gradaccord.meta.saved_runs import Trained
from gradaccord.meta.settings import settings_for
from gradaccord.runs.checkpoints import Checkpoints
from gradaccord.runs.checkpoints import load as load_checkpoint
from gradaccord.runs.files import RunFolderError
from gradaccord.runs.lock import locked


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    return write_patterns(tmp_path_factory.mktemp("data") / "patterns.zip")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)


@pytest.mark.parametrize("method", ["reptile", "dotprod-inner", "maml++"])
def test_stopped_at_any_iteration_and_gone_on_equals_unbroken(pictures, tmp_path, method):
    splits = load(pictures)
    settings = settings_for(
        method, filters=4, queries=2, tasks=2, train_shots=4, shots=1, inner_batch=5, inner_steps=2,
        evaluation_steps=3, iterations=6, validate_every=4, validation_tasks=3, test_queries=2,
    )  # fmt: skip
    unbroken = Run(settings, splits, tmp_path / "unbroken", 3)
    assert unbroken.train()
    for count in range(1, 7):
        run = Run(settings, splits, tmp_path / "broken", 3)
        assert run.progress.iteration == count - 1
        run.train(stop=lambda: True)
    run = Run(settings, splits, tmp_path / "broken", 3)
    assert run.train()
    assert same(final_state(tmp_path / "broken"), final_state(tmp_path / "unbroken"))


def test_ctrl_c_saves_after_the_iteration_or_validation_and_says_so(pictures, tmp_path):
    settings = settings_for(
        "fomaml", filters=4, queries=2, tasks=2, iterations=3, validate_every=3, validation_tasks=3,
        test_queries=2,
    )  # fmt: skip
    splits, said = load(pictures), []
    moments = iter(["validating, 0%", "training", "validating, 0%"])

    def press(progress: RunProgress) -> None:
        nonlocal moment
        if progress.doing == moment:
            moment = ""
            signal.raise_signal(signal.SIGINT)
            while not said:  # it is told by another thread
                time.sleep(0.001)

    for reached in (1, 2, 3):
        said.clear()
        run, moment = Run(settings, splits, tmp_path / "run", say=said.append), next(moments)
        assert not run.train(press)
        assert newest_state(tmp_path / "run")["iteration"] == reached
        what = "validation" if reached != 2 else "iteration"
        assert said[0].startswith(f"Ctrl-C: finishing this {what}, then saving a checkpoint;")
    assert run.finished  # the last was pressed in the last validation
    assert Run(settings, splits, tmp_path / "run").train()


def test_what_a_kill_in_the_last_save_left_goes_when_the_run_goes_on(pictures, tmp_path):
    settings = settings_for(
        "reptile", filters=4, train_shots=4, inner_batch=5, inner_steps=1, evaluation_steps=1,
        iterations=2, validate_every=1, validation_tasks=2, test_queries=2, queries=2,
    )  # fmt: skip
    folder, splits = tmp_path / "run", load(pictures)
    Run(settings, splits, folder).train()
    whole = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    (newest,) = folder.glob("checkpoints/step-*2")
    for left in (f"{newest.name}.old", "step-00000003.tmp", "step-00000000"):
        shutil.copytree(newest, newest.with_name(left))
    (folder / "best-99.pt").write_bytes(b"of a checkpoint that is gone")
    Run(settings, splits, folder).train()
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == whole
    assert (folder / "best-99.pt").relative_to(folder) not in whole


def test_minutes_end_a_run_and_its_linear_schedule(pictures, tmp_path):
    settings = settings_for(
        "reptile", minutes=0.01, filters=4, train_shots=4, inner_batch=5, evaluation_steps=2,
        validation_tasks=2, test_queries=2, queries=2,
    )  # fmt: skip
    assert settings.iterations is None
    run = Run(settings, load(pictures), tmp_path / "run")
    assert run.train()
    assert 0.6 <= run.progress.seconds < 5
    assert run.optimizer.param_groups[0]["lr"] < 0.9
    assert run.schedule.factor(1.0) == 0.0


def test_training_learns_and_the_best_is_kept(pictures, tmp_path):
    settings = settings_for(
        "maml", filters=8, queries=3, tasks=4, inner_steps=2, iterations=30, validate_every=10,
        outer_lr=0.01, validation_tasks=20, test_tasks=10, test_queries=3, keep=2,
    )  # fmt: skip
    state = torch.get_rng_state()
    run = Run(settings, load(pictures), tmp_path / "run")
    run.train()
    tested = run.test()
    assert torch.equal(torch.get_rng_state(), state)
    assert run.history[-1][1] > run.history[0][1] + 10  # by 24 and more
    best = [accuracy for accuracy, _ in run.best]
    assert best == sorted((entry[1] for entry in run.history), reverse=True)[:2]
    assert {path.name for path in (tmp_path / "run").glob("best-*.pt")} == {
        f"best-{iteration}.pt"
        for checkpoint in (tmp_path / "run" / "checkpoints").iterdir()
        for _, iteration in load_checkpoint(checkpoint)["best"]
    }
    assert tested.ensemble.models == 2
    trained = Trained(tmp_path / "run", load(pictures))
    assert trained.iterations == [iteration for _, iteration in run.best]
    assert same(dict(trained.learner.state_dict()), dict(run.learner.state_dict()))


def test_divergence_ends_with_the_remedy(pictures, tmp_path):
    settings = settings_for(
        "maml", inner_lr=1e30, filters=4, queries=2, test_queries=2, validation_tasks=2
    )
    run = Run(settings, load(pictures), tmp_path / "run")
    with pytest.raises(FloatingPointError, match="lower --inner-lr"):
        run.train()


def test_the_generators_of_accelerators_were_reseeded_by_a_run(pictures, tmp_path, monkeypatch):
    """It must leave them alone: nothing would put them back."""
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    options = {"filters": 4, "queries": 2, "test_queries": 2, "validation_tasks": 2, "iterations": 1}
    before = torch.get_rng_state()
    Run(settings_for("fomaml", **options), load(pictures), tmp_path / "run", seed=3).train()
    assert not seeds
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(0)
    assert seeds  # this is the way by which torch would have done it


@pytest.mark.parametrize("method", ALGORITHMS)
def test_a_run_never_steps_on_a_gradient_that_is_not_finite(pictures, tmp_path, method):
    options = {"filters": 4, "queries": 2, "train_shots": 4, "inner_batch": 5, "iterations": 4}
    run = Run(settings_for(method, test_queries=2, **options), load(pictures), tmp_path / "run")
    run._step()
    before = {name: tensor.clone() for name, tensor in run.learner.state_dict().items()}
    with torch.no_grad():
        run.learner.model.head.bias[0] = torch.nan
    run._step()
    run.learner.model.head.bias.data.copy_(before["model.head.bias"])
    assert same(before, run.learner.state_dict())
    run._step()
    assert not same(before, run.learner.state_dict())
    assert all(bool(p.isfinite().all()) for p in run.learner.parameters())


SMALL = {
    "filters": 4, "queries": 2, "tasks": 2, "inner_steps": 2, "iterations": 6, "validate_every": 2,
    "validation_tasks": 3, "test_tasks": 4, "test_queries": 2, "keep": 1,
}  # fmt: skip


def test_a_damaged_checkpoint_falls_back_to_the_one_before(pictures, tmp_path):
    splits, settings = load(pictures), settings_for("maml", share=True, **SMALL)
    assert Run(settings, splits, tmp_path / "whole").train()
    folder = tmp_path / "run"
    steps = iter([False] * 4 + [True])
    assert not Run(settings, splits, folder).train(stop=lambda: next(steps))
    older, newest = sorted((folder / "checkpoints").iterdir())
    content = bytearray((newest / "state-0.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "state-0.pt").write_bytes(content)
    said: list[str] = []
    run = Run(settings, splits, folder, say=said.append)
    assert run.progress.iteration == int(older.name.removeprefix("step-")) == 4
    assert len(said) == 1
    assert f"{newest.name} is skipped" in said[0]
    assert run.train()
    assert same(final_state(folder), final_state(tmp_path / "whole"))
    run.test()  # the best weights are those of the checkpoint that was used

    for path in (folder / "checkpoints").glob("*/state-0.pt"):
        path.write_bytes(b"")
    with pytest.raises(OSError, match="No checkpoint of the run in .* can be read: start again"):
        Run(settings, splits, folder)


def test_two_processes_on_one_folder(pictures, tmp_path):
    run = Run(settings_for("fomaml", **SMALL), load(pictures), tmp_path / "run")
    with locked(tmp_path / "run"):
        with pytest.raises(OSError, match="is in use by another process: wait for it"):
            run.train()
        assert not (tmp_path / "run" / "log.jsonl").exists()
    other = Run(run.settings, run.data, run.folder)
    assert other.train()
    assert run.train()  # what the other one has done since is read again
    assert run.progress.iteration == 6
    assert same(dict(run.learner.state_dict()), dict(other.learner.state_dict()))


def test_a_run_of_release_0_1_is_resumed(pictures, tmp_path):
    """It had one checkpoint, a file, of the same content."""
    splits, settings = load(pictures), settings_for("maml", **SMALL)
    assert Run(settings, splits, tmp_path / "whole").train()
    folder = tmp_path / "run"
    steps = iter([False] * 2 + [True])
    assert not Run(settings, splits, folder).train(stop=lambda: next(steps))
    torch.save(newest_state(folder), folder / "checkpoint.pt")
    shutil.rmtree(folder / "checkpoints")
    assert Trained(folder, splits).iterations
    run = Run(settings, splits, folder)
    assert run.progress.iteration == 3
    assert run.train()
    assert same(final_state(folder), final_state(tmp_path / "whole"))
    assert not (folder / "checkpoint.pt").exists()


def test_a_checkpoint_that_does_not_fit_is_told(pictures, tmp_path):
    settings = settings_for(
        "reptile", filters=4, train_shots=4, inner_batch=5, evaluation_steps=2, iterations=2,
        validation_tasks=2, test_queries=2, queries=2,
    )  # fmt: skip
    Run(settings, load(pictures), tmp_path, 0).train()
    (newest,) = list((tmp_path / "checkpoints").iterdir())[-1:]
    state = load_checkpoint(newest)
    state["learner"].popitem()
    Checkpoints(newest.parent).save(99, state)
    with pytest.raises(RunFolderError, match="step-00000099 does not fit this run") as raised:
        Run(settings, load(pictures), tmp_path, 0)
    assert "\n" not in str(raised.value)


def _damage(path: Path, how: str) -> None:
    """One byte is another, or the file is gone."""
    if how == "gone":
        path.unlink()
        return
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_damaged_best_weights_fall_back_to_the_checkpoint_before(pictures, tmp_path, how):
    splits, settings = load(pictures), settings_for("maml", **(SMALL | {"keep": 4}))
    assert Run(settings, splits, tmp_path / "whole").train()
    folder = tmp_path / "run"
    assert Run(settings, splits, folder).train()
    newest, before = (
        load_checkpoint(path) for path in reversed(Checkpoints(folder / "checkpoints").all())
    )
    (own,) = {i for _, i in newest["best"]} - {i for _, i in before["best"]}
    _damage(folder / f"best-{own}.pt", how)
    said: list[str] = []
    run = Run(settings, splits, folder, say=said.append)
    assert run.progress.iteration == before["iteration"]
    (sentence,) = said
    assert (
        f"best-{own}.pt is {'gone' if how == 'gone' else 'damaged (its checksum differs)'}." in sentence
    )
    assert run.train()
    assert same(final_state(folder), final_state(tmp_path / "whole"))


def test_best_weights_that_are_all_lost_are_chosen_anew_and_it_is_said(pictures, tmp_path):
    splits, settings = load(pictures), settings_for("maml", **SMALL)
    folder = tmp_path / "run"
    assert Run(settings, splits, folder).train()
    for path in folder.glob("best-*.pt"):
        _damage(path, "flipped")
    with pytest.raises(RunFolderError, match=r"its checksum differs.*: continue with .* --resume"):
        Trained(folder, splits)
    said: list[str] = []
    run = Run(settings, splits, folder, say=said.append)
    assert "without its best weights" in said[-1]
    assert run.train()
    assert run.best == [(run.history[-1][1], 6)]
    assert run.test().best_iteration == 6
