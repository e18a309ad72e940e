"""An entry on small files, with the folders that it is run in."""

import contextlib
from pathlib import Path

import pytest
from small_models import save_checkpoint
from train_toy import write_files

from gradaccord.compare import processes
from gradaccord.reproduce.entry import all_entries
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import RunRecord
from gradaccord.reproduce.run import Folders
from gradaccord.runs.config_files import write_config
from gradaccord.runs.exceptions import Interrupted
from gradaccord.train.run import train_run

ENTRIES = Path(__file__).parents[1] / "reproduce" / "entries"
TRIO = "controls-zz-trio"


@pytest.fixture(scope="session")
def trio():
    return all_entries(ENTRIES)[TRIO]


@pytest.fixture(scope="session")
def trio_data(tmp_path_factory):
    """The files that the entry needs, and its model, where `--data` looks for them."""
    folder = tmp_path_factory.mktemp("trio")
    save_checkpoint(folder / "bert", "bert")
    return write_files(folder)


@pytest.fixture
def folders(trio_data, tmp_path):
    return Folders(trio_data, tmp_path / "runs", tmp_path / "results")


@contextlib.contextmanager
def runs_in_this_process():
    """Training runs without a process for each, which saves starting Python and torch."""

    class Ended:
        returncode = 1

        def poll(self):
            return self.returncode

    def start(self, run, data):
        run.folder.mkdir(parents=True, exist_ok=True)
        write_config(run.config, run.folder / processes.WANTED)
        (run.folder / processes.OUTPUT).touch()
        try:
            train_run(run.config, run.folder, data=data, resume=(run.folder / "config.yaml").exists())
        except Interrupted as error:
            raise KeyboardInterrupt from error
        return Ended()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(processes.Processes, "start", start)
        patched.setattr(processes, "POLL", 0)
        yield


def made_record(planned, value, **more):
    """The record of a planned run with one score, without a run."""
    given = {
        "finished": "2026-01-01T00:00:00+0000", "commit": "abc", "versions": {"torch": "2"},
        "metrics": {"film": "accuracy"}, "trained": ["film"], "dev": {"film": {"accuracy": value}},
        "cost": {"seconds": 1.0, "cpu_seconds": 1.0, "steps": 4, "gradients": 8.0, "memory_mb": 1.0},
    }  # fmt: skip
    return RunRecord(**planned.key, **(given | more))


def save_made(entry, results, value_of, **options):
    """A record of every planned run; value_of: of its plan."""
    for planned in plan(entry, **options):
        made_record(planned, value_of(planned)).save(planned.path(results).parent)
