"""Runs in processes: reuse, deaths, Ctrl-C, locks, threads."""

import contextlib
import json
import math
import os
import shutil
import signal
from functools import partial
from threading import Thread

import pytest
from compare_toy import METHODS, run_here, runs_without_processes, table
from made_results import made_results
from train_toy import said, same, until, weights

from gradaccord.compare.processes import OUTPUT, Run, _collect, run_all, threads_of_each
from gradaccord.compare.specs import Spec
from gradaccord.compare.summary import runs_in, summarise
from gradaccord.train.config_file import check_config


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/seed-*/results.json")}


def test_finished_runs_are_reused(file, copied):
    before = times(copied)
    arguments = ["compare", file, "--methods", METHODS, "--out", copied]
    run_here(*arguments, "--seeds", 2)
    assert times(copied) == before
    run_here(*arguments, "--seeds", 1, "--methods", "pcgrad", "--no-controls")
    assert times(copied) == before
    assert tuple(table(copied)) == ("sum", "pcgrad")


def test_a_worker_that_fails_or_is_killed_leaves_the_others_going(file, copied, capsys):
    """One is killed (SIGKILL), one cannot write; the table names both, the next call mends them."""
    killed, stopped = copied / "pcgrad" / "seed-1", copied / "paired_sum" / "seed-0"
    whole = weights(killed)
    for folder in (killed, stopped, copied / "sum" / "seed-1"):
        shutil.rmtree(folder)
    stopped.mkdir(parents=True)
    (stopped / "checkpoints").write_text("a file in the way")
    arguments = ["compare", file, "--methods", METHODS, "--seeds", 2, "--out", copied, "--jobs", 3]
    killer = Thread(target=kill_the_one_in, args=[killed])
    killer.start()
    run_here(*arguments)
    killer.join()
    out = capsys.readouterr().out
    assert "pcgrad, seed 1, was killed by signal 9" in out
    assert "paired_sum, seed 0, ended with exit code 2" in out
    rows = table(copied)
    assert rows["pcgrad"]["seeds"] == [0]
    assert "killed by signal 9" in rows["pcgrad"]["missing"]["1"]
    assert rows["paired_sum"]["seeds"] == [1]
    assert rows["sum"]["seeds"] == [0, 1]
    text = (copied / "comparison.md").read_text()
    assert "Missing: pcgrad, seed 1: was killed by signal 9" in text
    assert "Missing: paired_sum, seed 0: ended with exit code 2" in text

    (stopped / "checkpoints").unlink()
    with runs_without_processes():
        run_here(*arguments)
    assert all(row["missing"] == {} for row in table(copied).values())
    assert same(weights(killed), whole)


def test_ctrl_c_and_sigterm_save_every_run_and_the_same_command_goes_on(file, tmp_path, command):
    """SIGTERM is how schedulers end a process: no run is left behind without a parent.

    A script's background job ignores Ctrl-C, and so do the processes that it starts.
    """
    arguments = ["compare", file, "--methods", "sum", "--seeds", 1, "--out", tmp_path / "long"]
    arguments += ["train.steps=300", "train.evaluate_every=300", "train.save_every=10"]
    run = tmp_path / "long" / "sum" / "seed-0"
    before = 0

    def saved_more(process, before):
        return last_step(run) > before or process.poll() is not None

    for kind in (signal.SIGINT, signal.SIGTERM):
        ignored = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
        compared = command(*arguments, before=ignored if kind == signal.SIGTERM else None)
        until(partial(saved_more, compared, before))
        compared.send_signal(kind)
        out, _ = compared.done(130)
        assert "Stopping: the run will finish a step and save; press again to stop at once." in out
        assert "every run is saved. The same command continues" in out
        step = last_step(run)
        assert before < step < 300
        assert not process_of(run)
        text = (run / "output.txt").read_text()
        assert f"Saved at step {step}." in text
        assert not before or f"Continued at step {before}." in text
        before = step
    with runs_without_processes():
        run_here(*arguments)
    assert f"Continued at step {before}." in (run / "output.txt").read_text()
    assert json.loads((run / "results.json").read_text())["cost"]["steps"] == 300


def test_a_run_whose_comparison_is_killed_saves_and_ends(file, tmp_path, command):
    arguments = ["compare", file, "--methods", "sum", "--seeds", 1, "--out", tmp_path / "long"]
    arguments += ["train.steps=5000", "train.evaluate_every=5000", "train.save_every=10"]
    compared = command(*arguments)
    run = tmp_path / "long" / "sum" / "seed-0"
    until(lambda: list(run.glob("checkpoints/step-*0")))
    compared.kill()
    until(lambda: not process_of(run))
    assert "Saved at step " in (run / "output.txt").read_text()


def test_a_comparison_that_is_cut_short_has_left_word_of_every_run(tmp_path):
    class Interrupted:
        jobs = 1

        def start(self, run, data):
            raise KeyboardInterrupt

    config = check_config({"model": "characters", "tasks": {"names": {"data": "cldr/de"}}})
    runs = [Run(Spec("sum"), seed, tmp_path / f"seed-{seed}", config) for seed in range(3)]
    with pytest.raises(KeyboardInterrupt):
        run_all(runs, data=None, runner=Interrupted())
    assert [run.failure for run in runs_in(run.folder for run in runs)] == ["not started"] * 3


def test_threads_that_were_asked_for_are_not_exceeded(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert threads_of_each(2) == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads_of_each(2) == 4


def test_other_settings_are_refused_in_one_sentence(file, copied, capsys):
    arguments = ["--methods", "pcgrad", "--no-controls", "--out", copied, "--seeds", 2]
    wrong = said(capsys, "compare", file, "train.lr=0.5", *arguments)
    assert "holds a run with other settings" in wrong


def test_the_reason_of_a_dead_run_ends_with_one_full_stop(tmp_path):
    config = check_config({"tasks": {"a": "sst"}})
    dead = Run(Spec("sum"), 1, tmp_path, config)
    (tmp_path / OUTPUT).write_text("gradaccord: The loss of task 'a' is not finite.\n")
    _collect(dead)
    alive = Run(Spec("sum"), 0, tmp_path, config, made_results({"a": 70.0}))
    comparison = summarise([alive, dead])
    assert any("is not finite." in sentence for sentence in comparison.remarks)
    assert not any(".." in sentence for sentence in comparison.remarks)
    assert math.isnan(comparison.baseline.vs_baseline.p)


def last_step(run):
    """Of the newest checkpoint; 0 if there is none."""
    return max((int(path.name[5:]) for path in run.glob("checkpoints/step-*[0-9]")), default=0)


def kill_the_one_in(folder):
    until(lambda: process_of(folder))
    os.kill(process_of(folder), signal.SIGKILL)


def process_of(folder):
    """The process that trains in a folder; 0 while there is none."""
    output = str((folder / OUTPUT).resolve())
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if os.readlink(f"/proc/{entry}/fd/1") == output:
                return int(entry)
    return 0
