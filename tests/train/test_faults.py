"""What goes wrong at the command line: one sentence, an exit code, and what was saved is kept."""

import os
import shutil
import subprocess

import pytest
from train_toy import complaint, said, same, weights

from gradaccord.runs.lock import locked


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["train.lr=fast"], "`train.lr` is 'fast': input should be a valid number"),
        (["train.lr=-1"], "`train.lr` is -1: input should be greater than 0"),
        (["train.batchsize=8"], "train has no key 'batchsize': did you mean 'batch_size'?"),
        (["train.epochs=1"], "`epochs` and `steps` both set the length: give one of them"),
        (["method=pcgard"], "The method 'pcgard' is unknown: did you mean 'pcgrad'?"),
        (["method=dotprod", "method.wieght=1"], "has no option 'wieght': did you mean 'weight'?"),
        (["method=torchjd"], "The method 'torchjd' needs a `weighting`: e.g. UPGrad"),
        (["method=torchjd", "method.weighting=CAGrd"], "did you mean 'CAGrad'?"),
        (["method=torchjd", "method.weighting=MoDo"], "MoDo, which needs the gradients of two"),
        (
            ["method=torchjd", "method.weighting=CAGrad", "method.c=1", "method.cc=1"],
            "'torchjd' with the weighting 'CAGrad' has no option 'cc': did you mean 'c'?",
        ),
        (["method=torchjd", "method.weighting=CAGrad"], "needs the option `c`: give it a value"),
        (["sampler=round"], "The sampler 'round' is unknown: did you mean 'round_robin'?"),
        (["regularize=smrt"], "The regulariser 'smrt' is unknown: did you mean 'smart'?"),
        (["train.optimizer=adm"], "The optimiser 'adm' is unknown: did you mean 'adam'?"),
        (["tasks.film.kind=classifier"], "did you mean 'classification'?"),
        (["tasks.film.labels=[a,b]"], "film.train.csv, line 2"),
        (["tasks.film.files.train=none.csv"], "none.csv: No such file"),
        (["tasks.film.max_length=2"], "Task 'film': `max_length` is 2: it must be at least 3"),
        (["tasks.film={data: sstt}"], "'sstt'"),
        (["model=/none/such"], "/none/such"),
        (["train.warm_start={task: bnk}"], "`train.warm_start.task` is 'bnk': name a trained task"),
        (["nonsense"], "has no `=`: write key=value"),
    ],
)
def test_a_wrong_setting(written, capsys, tmp_path, overrides, sentence):
    assert sentence in said(capsys, "train", written(), *overrides, "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no mapping"),
        ("tasks: [", "line 1, is not YAML"),
        ("tasks: {}\n", "line 1: `tasks`"),
        ("model: minilm\n", "`tasks` is missing"),
        ("tasks:\n  a: sst\n  a: sts\n", "line 3, is not YAML: the key 'a' is given twice"),
    ],
)
def test_a_wrong_file(tmp_path, capsys, text, sentence):
    (tmp_path / "run.yaml").write_text(text)
    wrong = said(capsys, "train", tmp_path / "run.yaml", "--out", tmp_path / "run")
    assert sentence in wrong
    assert "run.yaml" in wrong


def test_a_missing_file(tmp_path, capsys):
    assert "none.yaml: No such file" in said(capsys, "train", tmp_path / "none.yaml")


def test_a_run_folder_that_cannot_be_made(written, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        wrong = said(capsys, "train", written(), "--out", out)
        assert "cannot be written to" in wrong
        assert "choose another --out" in wrong


def test_a_read_only_run_folder(written, tmp_path, capsys):
    with mounted(tmp_path / "disk", "ro"):
        wrong = said(capsys, "train", written(), "--out", tmp_path / "disk" / "run")
    assert "cannot be written to (Read-only file system): choose another --out" in wrong


def test_a_full_disk_keeps_the_checkpoint_before_and_the_run_goes_on(written, tmp_path, capsys):
    """Room for one checkpoint and the best weights, not for a second checkpoint."""
    file = written(train={"steps": 8, "save_every": 4, "evaluate_every": 8})
    said(capsys, "train", file, "--out", tmp_path / "whole", code=0)
    size = sum(p.stat().st_size for p in (tmp_path / "whole/checkpoints/step-00000004").iterdir())
    disk = tmp_path / "disk"
    with mounted(disk, f"size={int(1.6 * size) // 1024}k"):
        wrong = said(capsys, "train", file, "--out", disk / "run")
        assert "No space left on device" in wrong
        assert [p.name for p in (disk / "run" / "checkpoints").iterdir()] == ["step-00000004"]
        mount("-o", f"remount,size={20 * size // 1024}k", disk)
        out = said(capsys, "train", file, "--out", disk / "run", "--resume", code=0)
        assert "Continued at step 4." in out
        assert same(weights(disk / "run"), weights(tmp_path / "whole"))


def test_a_file_that_may_not_grow(written, tmp_path, command):
    """A quota, as RLIMIT_FSIZE: needs no mount."""
    resource = pytest.importorskip("resource")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    wrong = complaint(command("train", written(), "--out", tmp_path / "run", before=limit))
    assert "File too large" in wrong
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_two_processes_on_one_folder(written, tmp_path, capsys):
    with locked(tmp_path / "run"):
        wrong = said(capsys, "train", written(), "--out", tmp_path / "run")
    assert "is in use by another process" in wrong
    said(capsys, "train", written(train={"steps": 1}), "--out", tmp_path / "run", code=0)


def test_a_damaged_checkpoint_without_one_before_it(configured, run, tmp_path):
    """What is said of the one before is true: here there is none, and the run begins anew."""
    config = configured(train={"steps": 2, "save_every": 2, "evaluate_every": 2})
    run(config)
    (tmp_path / "run" / "results.json").unlink()
    (state,) = (tmp_path / "run" / "checkpoints").glob("*/state-0.pt")
    state.write_bytes(state.read_bytes()[:100])
    told = []
    run(config, resume=True, say=told.append)
    assert any("step-00000002 is skipped: " in sentence for sentence in told)
    assert "There is no checkpoint that can be read: started from the beginning." in told
    assert not any("before is used" in sentence for sentence in told)


class mounted:  # noqa: N801
    """A file system of its own in memory; where that is not allowed the test is skipped."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options

    def __enter__(self):
        self.folder.mkdir()
        if os.name != "posix" or mount("-t", "tmpfs", "-o", self.options, "tmpfs", self.folder):
            pytest.skip("mounting a file system is not allowed here")

    def __exit__(self, *_):
        subprocess.run(["umount", self.folder], check=True)


def mount(*arguments):
    """The exit code."""
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode
    except OSError:
        return 1


# The best weights of an unfinished run


def broken_at_9(configured, run, interrupted, tmp_path, harm):
    """A whole run, and one interrupted at step 9 whose best weights came to harm and that went on."""
    config = configured(train={"steps": 12, "save_every": 4, "evaluate_every": 3, "keep": 2})
    whole = run(config, "whole")
    interrupted(config, "broken", after=9)
    harm(tmp_path / "broken")
    told = []
    return whole, run(config, "broken", resume=True, say=told.append), told


def no_best_to_come(monkeypatch):
    """The first evaluation is the best one: what comes after it never replaces it."""
    from gradaccord.train.evaluation import Evaluator

    scores = iter(range(100, 0, -1))
    monkeypatch.setattr(Evaluator, "_average", lambda evaluator, found: float(next(scores)))


@pytest.mark.parametrize("damage", ["removed", "cut", "one file", "sums"])
def test_lost_best_weights_are_told_and_the_run_goes_on(
    configured, run, interrupted, tmp_path, monkeypatch, damage
):
    no_best_to_come(monkeypatch)

    def harm(folder):
        for kept in (folder / "best").glob("step-*"):
            if damage == "removed":
                shutil.rmtree(kept)
            elif damage == "cut":
                (kept / "state-0.pt").write_bytes((kept / "state-0.pt").read_bytes()[:100])
            elif damage == "one file":
                (kept / "state-0.pt").unlink()
            else:
                (kept / "sums.json").write_text("{}")

    whole, again, told = broken_at_9(configured, run, interrupted, tmp_path, harm)
    assert whole.best_step == 3
    assert sum("is skipped: its best weights, of step 3, cannot be read" in one for one in told) == 2
    assert "The best weights, of step 3, are lost: from step 9 on the best are chosen again." in told
    assert again.best_step == 12
    assert [record.step for record in again.evaluations] == [3, 6, 9, 12]


def test_best_weights_lost_after_the_last_evaluation_leave_the_last_ones(
    configured, run, tmp_path, monkeypatch
):
    no_best_to_come(monkeypatch)
    config = configured(train={"steps": 6, "save_every": 3, "evaluate_every": 3})
    assert run(config).best_step == 3
    (tmp_path / "run" / "results.json").unlink()
    shutil.rmtree(tmp_path / "run" / "best")
    told = []
    assert run(config, resume=True, say=told.append).best_step == 6
    assert "The best weights, of step 3, are lost: from step 6 on the best are chosen again." in told


def test_a_damaged_checkpoint_falls_back_to_one_whose_best_weights_are_kept(
    configured, run, interrupted, tmp_path, monkeypatch
):
    """The best of step 9 leaves that of step 6, to which the checkpoint of step 8 refers."""
    from gradaccord.train.evaluation import Evaluator

    scores = iter([1, 2, 3, 2, 1, 2, 3, 3, 2])  # of the whole run; of the broken one; of steps 9 and 12
    monkeypatch.setattr(Evaluator, "_average", lambda evaluator, found: float(next(scores)))

    def harm(folder):
        (folder / "checkpoints" / "step-00000009" / "state-0.pt").write_bytes(b"")

    whole, again, told = broken_at_9(configured, run, interrupted, tmp_path, harm)
    assert whole.best_step == again.best_step == 9
    assert "Continued at step 8." in told
    assert not any("lost" in sentence or "best weights" in sentence for sentence in told)
    assert again.dev == whole.dev
    assert [path.name for path in (tmp_path / "broken" / "best").iterdir()] == ["step-00000009"]


@pytest.mark.parametrize("left", ["", "[]", "7", "tasks: {}", None])
def test_a_run_whose_configuration_is_damaged_or_gone_is_not_started_anew(
    configured, run, written, tmp_path, capsys, left
):
    steps = {"steps": 2, "save_every": 1, "evaluate_every": 2}
    run(configured(train=steps))
    (tmp_path / "run" / "results.json").unlink()
    path = tmp_path / "run" / "config.yaml"
    path.unlink()
    if left is not None:
        path.write_text(left)
    before = weights(tmp_path / "run")
    wrong = said(capsys, "train", written(train=steps), "--out", tmp_path / "run", "--resume")
    why = {None: "it is missing", "": "it is empty"}.get(left, "")
    assert f"{path} is damaged ({why}" in wrong
    assert "put the run's configuration back, or move its folder away" in wrong
    assert same(weights(tmp_path / "run"), before)
    assert "holds an unfinished run" in said(capsys, "train", written(), "--out", tmp_path / "run")


@pytest.mark.parametrize("room", [0.2, 0.8, 1.45])
def test_wherever_the_disk_is_full_a_sentence_names_file_and_remedy_and_the_run_goes_on(
    written, tmp_path, capsys, room
):
    """In units of a checkpoint (three times the weights): the best weights, it, the final model."""
    file = written(train={"steps": 2, "save_every": 2, "evaluate_every": 2})
    said(capsys, "train", file, "--out", tmp_path / "whole", code=0)
    size = sum(p.stat().st_size for p in (tmp_path / "whole/checkpoints/step-00000002").iterdir())
    disk = tmp_path / "disk"
    with mounted(disk, f"size={int(room * size) // 1024}k"):
        wrong = said(capsys, "train", file, "--out", disk / "run")
        assert str(disk / "run") in wrong
        assert "cannot be written (No space left on device): make room" in wrong
        mount("-o", f"remount,size={20 * size // 1024}k", disk)
        said(capsys, "train", file, "--out", disk / "run", "--resume", code=0)
        assert same(weights(disk / "run"), weights(tmp_path / "whole"))
        assert not [p.name for p in (disk / "run").iterdir() if "tmp" in p.name or "part" in p.name]
