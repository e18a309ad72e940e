"""`gradaccord train`: killed, resumed, and left by its terminal."""

import fcntl
import os
import signal
import termios
from contextlib import suppress

import pytest
from train_toy import same, until, weights


def test_killed_and_resumed_through_the_command_line(written, tmp_path, command):
    file = written(train={"steps": 60, "save_every": 5, "evaluate_every": 60})
    killed = command("train", file, "--out", tmp_path / "killed")
    until(lambda: list(tmp_path.glob("killed/checkpoints/step-*5")) or killed.poll() is not None)
    killed.kill()
    killed.wait()
    assert not (tmp_path / "killed" / "results.json").exists()
    out, _ = command("train", file, "--out", tmp_path / "killed", "--resume").done()
    assert "Continued at step" in out
    command("train", file, "--out", tmp_path / "whole").done()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
def test_a_closed_terminal_saves_like_sigterm(written, tmp_path, command):
    """The run is alone in its session, on a terminal of its own that is closed."""
    file = written(train={"steps": 2000, "save_every": 2000, "evaluate_every": 2000})
    ours, its = os.openpty()

    def own_terminal():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
        fcntl.ioctl(its, termios.TIOCSCTTY, 0)
        os.dup2(its, 1)
        os.dup2(its, 2)

    out = tmp_path / "run"
    process = command(
        "train", file, "--out", out, start_new_session=True, before=own_terminal, pass_fds=[its]
    )
    os.close(its)
    os.set_blocking(ours, False)

    def running():
        with suppress(BlockingIOError):
            os.read(ours, 1 << 16)  # what it shows
        log = out / "log.jsonl"
        return (log.exists() and log.stat().st_size > 0) or process.poll() is not None

    until(running)
    os.close(ours)
    process.wait(timeout=60)
    (saved,) = (out / "checkpoints").glob("step-*")
    assert int(saved.name[5:]) > 0
    assert process.returncode == 130
