"""The loop: micro-batches, dropout, early stopping, and a clean end by Ctrl-C and SIGTERM."""

import fcntl
import os
import signal
import termios
import time
from contextlib import suppress

import pytest
import torch
from train_toy import said, same, until, weights, without_dropout

from gradaccord.models.multitask import MultiTaskModel
from gradaccord.runs.exceptions import Interrupted
from gradaccord.runs.log import read_log


def test_micro_batches_give_the_same_weights(content, configured, run, tmp_path, checkpoint):
    plain = {"steps": 3, "optimizer": "sgd", "lr": 0.05}
    tasks = {name: {**task, "dropout": 0.0} for name, task in content["tasks"].items()}
    model = {"name": str(without_dropout(checkpoint, tmp_path / "model"))}
    run(configured(train=plain, tasks=tasks, model=model), "whole")
    run(configured(train={**plain, "micro_batches": 4}, tasks=tasks, model=model), "parts")
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    close = [torch.allclose(one[n], other[n], atol=1e-5) for n in one if one[n].is_floating_point()]
    assert all(close)


def test_dropout_is_on_from_the_first_step(configured, run, tmp_path):
    """A pretrained trunk comes in evaluation mode, and would stay in it until the first evaluation."""
    first = []
    for seed in (0, 1):  # the same rows and weights, other dropout: seeds differ after the first step
        run(configured(train={"steps": 2, "seed": 0, "micro_batches": 1 + seed}), f"run{seed}")
        first.append(read_log(tmp_path / f"run{seed}" / "log.jsonl")[0]["loss"])
    assert first[0] != pytest.approx(first[1], rel=1e-3)


def test_what_is_done_beside_steps_is_shown(configured, run):
    seen = {}
    config = configured(train={"steps": 2, "evaluate_every": 2, "save_every": 2})
    run(config, show=lambda now: seen.setdefault(now.doing.partition(" ")[0], []).append(now.doing))
    assert {"", "evaluating", "probing", "saving"} <= seen.keys()
    assert any(doing.endswith(" dev") for doing in seen["evaluating"])
    saved = {"saving a checkpoint", "saving the best weights", "saving the model"}
    assert set(seen["saving"]) == saved


def test_early_stopping_is_told(configured, run):
    """At a rate of nearly nothing no evaluation is better than the first."""
    told = []
    config = configured(
        train={"steps": 9, "lr": 1e-12, "evaluate_every": 1, "patience": 2, "save_every": 9}
    )
    results = run(config, say=told.append)
    assert results.cost.steps == 3
    assert told[-1] == (
        "Stopped early, after step 3: no score was better than that at step 1 for 2 evaluations."
    )


def test_ctrl_c_saves_and_prints_how_to_go_on(written, tmp_path, command, capsys):
    """A real signal, in the middle of a step; the run then goes on bit for bit."""
    file = written(train={"steps": 60, "save_every": 5, "evaluate_every": 60})
    arguments = ["train", file, "--out", tmp_path / "run"]
    running = command(*arguments)
    until(lambda: list(tmp_path.glob("run/checkpoints/step-*5")) or running.poll() is not None)
    running.send_signal(signal.SIGINT)
    out, _ = running.done(130)
    last = out.strip().splitlines()[-1]
    step = int(sorted(tmp_path.glob("run/checkpoints/step-*"))[-1].name.removeprefix("step-"))
    assert 5 <= step < 60
    assert last.startswith(f"Saved at step {step}. Continue with: gradaccord train {file} --out ")
    assert last.endswith(" --resume")
    said(capsys, *arguments, "--resume", code=0)
    said(capsys, "train", file, "--out", tmp_path / "whole", code=0)
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))


def test_ctrl_c_on_a_terminal_is_answered_at_once(written, tmp_path, command):
    """The key itself, on a terminal of the run's own; the bar is live there."""
    file = written(train={"steps": 5000, "save_every": 5000, "evaluate_every": 5000})
    ours, its = os.openpty()

    def own_terminal():
        fcntl.ioctl(its, termios.TIOCSCTTY, 0)
        os.dup2(its, 0)
        os.dup2(its, 1)

    process = command(
        "train", file, "--out", tmp_path / "run", start_new_session=True, before=own_terminal,
        pass_fds=[its],
    )  # fmt: skip
    os.close(its)
    os.set_blocking(ours, False)
    shown = [""]

    def shows(text):
        with suppress(OSError):  # nothing yet; or the terminal of a process that has ended
            shown[0] += os.read(ours, 1 << 16).decode(errors="replace")
        return text in shown[0]

    until(lambda: shows("step 1"))
    os.write(ours, b"\x03")
    pressed = time.monotonic()
    until(lambda: shows("Ctrl-C: finishing"))
    assert time.monotonic() - pressed < 2  # a second on a machine that does nothing else
    assert "then saving a checkpoint; press again to stop at once." in shown[0]
    until(lambda: shows("--resume") and process.poll() is not None)
    os.close(ours)
    assert process.returncode == 130
    assert "Saved at step" in shown[0]
    assert list(tmp_path.glob("run/checkpoints/step-*"))


def test_ctrl_c_again_while_it_saves_changes_nothing(configured, run, tmp_path, monkeypatch):
    """Real signals: one within a step, and one at every file that is written after it."""
    config = configured(train={"steps": 6, "save_every": 6, "evaluate_every": 6})
    write = torch.save

    def written_in_a_hurry(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        write(*arguments, **options)

    def press(progress):
        if progress.step == 3:
            monkeypatch.setattr(torch, "save", written_in_a_hurry)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match=r"Saved at step 3\."):
        run(config, show=press)
    monkeypatch.undo()
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000003"]
    run(config, resume=True)
    run(config, "whole")
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))


def test_sigterm_saves_after_the_step_as_ctrl_c_does(configured, run, tmp_path):
    config = configured(train={"steps": 6, "save_every": 6, "evaluate_every": 6})

    def end(progress):
        if progress.step == 3:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted, match=r"Saved at step 3\."):
        run(config, show=end)
    run(config, resume=True)
    run(config, "whole")
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))


def test_a_second_ctrl_c_within_a_step_stops_at_once_at_the_last_checkpoint(
    configured, run, tmp_path, monkeypatch
):
    config = configured(train={"steps": 6, "save_every": 2, "evaluate_every": 6})
    forward = MultiTaskModel.forward

    def pressed_twice(self, task, batch):
        if self.training and list((tmp_path / "run" / "checkpoints").glob("step-*2")):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return forward(self, task, batch)

    monkeypatch.setattr(MultiTaskModel, "forward", pressed_twice)
    with pytest.raises(Interrupted, match="within a step, which is lost; .* is step-00000002"):
        run(config)
    monkeypatch.undo()
    run(config, resume=True)
    run(config, "whole")
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))
