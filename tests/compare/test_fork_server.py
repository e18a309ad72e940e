"""Runs forked from a process that has imported everything."""

import os
import signal
import sys

import psutil
import pytest
from compare_toy import run_here
from train_toy import same, until, weights

from gradaccord.compare.fork_server import LOST, ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs are forked on Linux alone")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def server():
    return ForkServer()


def started(server, output, *arguments, environment=ENVIRONMENT):
    return server.start([str(one) for one in arguments], output, environment, threads=1)


def test_a_run_is_that_of_a_fresh_process(server, file, tmp_path):
    one = started(server, tmp_path / "one.txt", "train", file, "--out", tmp_path / "one")
    assert one.wait() == 0
    assert f"Written: {tmp_path / 'one'}" in (tmp_path / "one.txt").read_text().replace("\n", "")
    run_here("train", file, "--out", tmp_path / "other")
    assert same(weights(tmp_path / "one"), weights(tmp_path / "other"))


def test_exit_codes_output_and_environment_are_those_of_the_command(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = started(server, tmp_path / "wrong.txt", "train", "nowhere.yaml")
    right = started(server, tmp_path / "right.txt", "list", "methods")
    narrow = {**ENVIRONMENT, "COLUMNS": "60"}
    third = started(server, tmp_path / "narrow.txt", "list", "methods", environment=narrow)
    assert (wrong.wait(), right.wait(), third.wait()) == (2, 0, 0)
    said = (tmp_path / "wrong.txt").read_text()
    assert said.startswith("gradaccord: ")
    assert "nowhere.yaml" in said
    assert "pcgrad" in (tmp_path / "right.txt").read_text()
    assert max(map(len, (tmp_path / "narrow.txt").read_text().splitlines())) <= 60


def test_signals_reach_a_run(server, file, tmp_path):
    long = ["train.steps=100000", "train.evaluate_every=100000"]
    out = [tmp_path / name for name in "ab"]
    runs = [started(server, tmp_path / "o", "train", file, *long, "--out", one) for one in out]
    until(lambda: all((o / "log.jsonl").exists() for o in out))
    runs[0].send_signal(signal.SIGKILL)
    runs[1].send_signal(signal.SIGINT)
    assert runs[0].wait() == -signal.SIGKILL
    assert runs[1].wait() == 130
    assert list((out[1] / "checkpoints").iterdir())
    runs[0].send_signal(signal.SIGINT)  # of one that has ended: nothing


def test_runs_whose_server_is_killed_save_and_end(file, tmp_path):
    server, out = ForkServer(), tmp_path / "run"
    run = started(server, tmp_path / "o", "train", file, "train.steps=100000", "--out", out)
    until((out / "log.jsonl").exists)
    psutil.Process(run.pid).parent().kill()
    assert run.wait() == LOST
    assert list((out / "checkpoints").iterdir())
    assert started(server, tmp_path / "o", "list", "methods").wait() == 0  # by a new one
