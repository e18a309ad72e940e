"""Fixtures of runs: a tiny real checkpoint, three small tasks in files, a command line to call."""

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import time

import pytest
import torch
from small_models import TEXTS, save_checkpoint

from gradaccord.cli.app import main
from gradaccord.runs.checkpoints import load as load_checkpoint
from gradaccord.runs.config_files import write_config
from gradaccord.runs.exceptions import Interrupted
from gradaccord.train.config_file import check_config
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.run import train_run

WORDS = sorted({word.strip(".,;?").lower() for text in TEXTS for word in text.split()})


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    return save_checkpoint(tmp_path_factory.mktemp("model") / "bert", "bert")


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("data"))


def write_files(folder):
    """Two classifications by a word that is there or not; a regression on the share of long ones."""
    draw = random.Random(0)
    for name, word in (("film", "film"), ("bank", "bank"), ("long", None)):
        for split, count in (("train", 64), ("dev", 16)):
            with (folder / f"{name}.{split}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["text", "label"])
                for i in range(count):
                    words = draw.choices(WORDS, k=6)
                    if word is None:
                        label = sum(len(w) > 4 for w in words) / 6
                    else:
                        words = [w for w in words if w != word]
                        label = "yes" if i % 2 else "no"
                        words += [word] if i % 2 else []
                        draw.shuffle(words)
                    writer.writerow([" ".join(words), label])
    return folder


@pytest.fixture(scope="session")
def content(checkpoint, files):
    return content_of(checkpoint, files)


def content_of(checkpoint, files, **options):
    """A configuration as plain dictionaries; `configured` makes variants of it."""

    def task(name, **more):
        return {
            "files": {split: str(files / f"{name}.{split}.csv") for split in ("train", "dev")},
            "columns": {"first": "text", "label": "label"},
            "max_length": 16,
            **options,
            **more,
        }

    return {
        "model": str(checkpoint),
        "tasks": {
            "film": task("film", kind="classification", labels=["no", "yes"]),
            "bank": task("bank", kind="classification", labels=["no", "yes"]),
            "long": task("long", kind="regression", pair=None),
        },
        "train": {
            "steps": 12, "lr": 1e-3, "batch_size": 8, "evaluate_every": 6, "save_every": 4,
            "threads": 1,
        },
        "probe": {"cosine_batches": 2, "errors": 3},
    }  # fmt: skip


def without_dropout(checkpoint, folder):
    """A copy of a checkpoint whose outputs are the same in training."""
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def configured(content):
    def made(train=None, **changes):
        return check_config({**content, **changes, "train": {**content["train"], **(train or {})}})

    return made


@pytest.fixture
def run(tmp_path):
    def started(config, folder="run", **options):
        return train_run(config, tmp_path / folder, **options)

    return started


@pytest.fixture(scope="session")
def trained(configured, tmp_path_factory):
    """A finished run that has learned its tasks."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_run(
        configured(train={"steps": 160, "lr": 5e-3, "evaluate_every": 80, "save_every": 160}), folder
    )
    return folder


@pytest.fixture
def exported(trained, tmp_path, capsys):
    """The same, exported."""
    shown_by(capsys, "export", trained, "--out", tmp_path / "exported")
    return tmp_path / "exported"


@pytest.fixture
def interrupted(run, monkeypatch):
    """`run` with Ctrl-C after a step; it is saved there, and can be resumed."""

    def started(config, folder, *, after):
        taken = TrainingLoop.take_step

        def step(loop, log):
            if loop.step == after:
                raise KeyboardInterrupt
            return taken(loop, log)

        with monkeypatch.context() as patched:
            patched.setattr(TrainingLoop, "take_step", step)
            with pytest.raises(Interrupted, match=f"at step {after}\\."):
                run(config, folder)

    return started


@pytest.fixture
def written(configured, tmp_path):
    """A configuration in a file of its own."""

    def made(name="run.yaml", **changes):
        write_config(configured(**changes), tmp_path / name)
        return tmp_path / name

    return made


@pytest.fixture
def command():
    """The command line in a process of its own: `command("train", file).wait()`."""
    started = []

    def made(*arguments, before=None, **options):
        process = Command(
            [sys.executable, "-m", "gradaccord", *map(str, arguments)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=before,
            **options,
        )
        started.append(process)
        return process

    yield made
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Command(subprocess.Popen):
    """A process, and what it said when it ended."""

    def done(self, code=0):
        """Wait for the end; it must come with this exit code. Returns stdout and stderr."""
        out, err = self.communicate(timeout=300)
        assert self.returncode == code, out + err
        assert "Traceback" not in out + err
        return out, err


def complaint(process, code=2):
    """The one sentence that a command ended with."""
    _, err = process.done(code)
    assert err.startswith("gradaccord: "), err
    assert err.count("\n") == 1, err
    return err


def said(capsys, *arguments, code=2):
    """The one sentence on stderr that a command, called in this process, ends with; code 0: stdout."""
    with pytest.raises(SystemExit) as end:
        main([str(one) for one in arguments])
    printed = capsys.readouterr()
    assert end.value.code == code, printed.err
    if code == 0:
        return printed.out
    assert printed.err.startswith("gradaccord: ")
    assert printed.err.count("\n") == 1
    return printed.err


def shown_by(capsys, *arguments):
    """What a command that succeeds prints."""
    return said(capsys, *arguments, code=0)


def until(condition, seconds=240):
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def weights(folder, rank=0):
    """The model in a run's newest checkpoint."""
    (newest,) = sorted((folder / "checkpoints").glob("step-*"))[-1:]
    return load_checkpoint(newest, rank)["model"]


def same(one, other):
    """Whether two models are equal to the last bit."""
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)
