"""A small comparison and a small sweep, done once for all tests that look at them."""

import contextlib
import json
import os
import shutil

import pytest
from filelock import FileLock
from small_models import save_checkpoint
from train_toy import content_of, write_files

from gradaccord.cli.app import main
from gradaccord.compare import processes
from gradaccord.runs.config_files import write_config
from gradaccord.runs.files import CONFIG
from gradaccord.train.config_file import check_config

METHODS = "pcgrad;dotprod:mode=difference"
# Controls included: DotProd's also at a longer step.
COMPARED = ("sum", "pcgrad", "paired_sum", "paired_sum@1.1", "dotprod:mode=difference")
TRAIN = {"steps": 4, "evaluate_every": 4, "save_every": 2}
PROBE = {"cosine_batches": 1, "errors": 1}


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder that all processes of pytest-xdist share, and its lock."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return root / "compare", FileLock(root / "compare.lock")


@pytest.fixture(scope="session")
def file(shared):
    """Two tasks, four steps: eight gradients a run."""
    folder, lock = shared
    with lock:
        if not (folder / "two.yaml").exists():
            (folder / "data").mkdir(parents=True)
            checkpoint = save_checkpoint(folder / "model", "bert")
            content = content_of(checkpoint, write_files(folder / "data"))
            content["tasks"].pop("long")
            content |= {"train": {**content["train"], **TRAIN}, "probe": PROBE}
            write_config(check_config(content), folder / "two.yaml")
    return folder / "two.yaml"


@pytest.fixture(scope="session")
def finished(file, shared):
    """A comparison of two methods on two seeds."""
    folder, lock = shared
    out = folder / "finished"
    with lock, runs_without_processes():
        if not (out / "comparison.json").exists():
            run_here("compare", file, "--methods", METHODS, "--seeds", 2, "--out", out)
    return out


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of it, to break."""
    return shutil.copytree(finished, tmp_path / "compared")


@pytest.fixture(scope="session")
def swept(file, shared):
    """A finished sweep over a number, a few numbers and a word, three trials of two seeds."""
    pytest.importorskip("optuna")
    folder, lock = shared
    out = folder / "swept"
    ranges = ["train.lr=1e-4..1e-2", "train.warmup=0,0.5", "train.schedule=linear,constant"]
    with lock, runs_without_processes():
        if not (out / "report.html").exists():
            run_here("sweep", file, *ranges, "--out", out, "--trials", 3, "--seeds", 2)
    return out


def run_here(*arguments):
    """The command in this process; its runs are processes of their own."""
    with pytest.raises(SystemExit) as end:
        main([str(one) for one in arguments])
    assert end.value.code == 0


@contextlib.contextmanager
def runs_without_processes():
    """Runs of a comparison in this process, which saves starting Python and torch for each."""

    class Ended:
        def __init__(self, code):
            self.returncode = code

        def poll(self):
            return self.returncode

    def start(self, run, data):
        run.folder.mkdir(parents=True, exist_ok=True)
        wanted = run.folder / processes.WANTED
        write_config(run.config, wanted)
        resume = ["--resume"] if (run.folder / CONFIG).exists() else []
        with (
            (run.folder / processes.OUTPUT).open("a") as output,
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            pytest.raises(SystemExit) as end,
        ):
            main(["train", str(wanted), "--out", str(run.folder), *resume])
        return Ended(end.value.code)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(processes.Processes, "start", start)
        patched.setattr(processes, "POLL", 0.0)
        yield


def table(folder):
    """comparison.json by method."""
    methods = json.loads((folder / "comparison.json").read_text())["methods"]
    return {row["method"]: row for row in methods}


def study_of(folder):
    """The Optuna study of a sweep."""
    import optuna

    return optuna.load_study(study_name="gradaccord", storage=f"sqlite:///{folder / 'sweep.db'}")
