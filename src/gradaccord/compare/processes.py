"""Training runs and trials as processes of this machine: finished ones reused, others resumed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch

from gradaccord.compare.fork_server import ForkServer, can_fork
from gradaccord.compare.specs import Spec
from gradaccord.runs.config_files import write_config
from gradaccord.runs.files import CONFIG, LOG, RunFolderError
from gradaccord.runs.interrupts import PARENT, SIGNALS, silence, terminals
from gradaccord.runs.log import StepRecord, tail
from gradaccord.runs.results import Results
from gradaccord.train.config import Config
from gradaccord.train.config_file import read_own_config
from gradaccord.train.progress import NOW

OUTPUT = "output.txt"  # what a run printed
WANTED = "wanted.yaml"  # the configuration that its process is given
POLL = 0.5  # seconds between two checks of the processes


class Job(Protocol):
    """A run that was started: a `subprocess.Popen`, or what stands for a run elsewhere."""

    returncode: Any  # None while it is going

    def poll(self) -> int | None:
        """Its exit code, None while it is going."""

    def send_signal(self, sig: int) -> None:
        """SIGTERM asks it to save itself and end; SIGINT, after that, to end within its step."""

    def wait(self) -> int:
        """Wait until it has ended; its exit code."""


class Runner(Protocol):
    """Where runs are done: in processes here (`Processes`) or on a cluster (`compare.cluster`).

    Its text says how many run at a time.
    """

    @property
    def jobs(self) -> int:
        """How many runs may be started and not ended at a time."""

    def start(self, run: Run, data: Path | None) -> Job:
        """Start one run of a comparison or sweep in its folder, or go on with it."""

    def at_once(self, runs: Sequence[Run], data: Path | None) -> int:
        """How many such groups of runs a sweep does at a time."""

    def pool(self) -> Executor:
        """Workers for functions that are not training runs."""


@dataclass
class Run:
    """One method on one seed."""

    spec: Spec
    seed: int
    folder: Path
    config: Config
    results: Results | None = None
    failure: str | None = None
    process: Job | None = field(default=None, repr=False)
    memory_mb: float = 0.0  # that it is likely to take; 0: not known

    @property
    def label(self) -> str:
        """Its name on a screen."""
        return f"{self.spec}, seed {self.seed}"

    @property
    def done(self) -> bool:
        """Finished, or failed for good."""
        return self.results is not None or self.failure is not None

    @property
    def going(self) -> bool:
        """Started, and not in a queue any more."""
        return self.process is not None and not self.done and (self.folder / OUTPUT).exists()

    @property
    def share(self) -> float:
        """How far it is, 0 to 1."""
        return 1.0 if self.done else _share(self.folder / LOG)

    @property
    def now(self) -> str:
        """What it does instead of steps, by the last line that it printed; empty if it takes steps."""
        last = tail(self.folder / OUTPUT)[-1:]
        return last[0].partition(NOW)[2].strip() if last else ""


class Shown(Protocol):
    """What a screen needs to know about one run."""

    failure: str | None

    @property
    def label(self) -> str:
        """Its name."""

    @property
    def done(self) -> bool:
        """Finished, or failed for good."""

    @property
    def going(self) -> bool:
        """Started, and not in a queue any more."""

    @property
    def share(self) -> float:
        """How far it is, 0 to 1."""

    @property
    def now(self) -> str:
        """What it does instead of steps; empty if it takes steps."""


@dataclass(frozen=True)
class Progress:
    """How far all runs are, for a screen."""

    runs: Sequence[Shown]
    seconds_left: float

    @property
    def share(self) -> float:
        """The share of all the work that is done."""
        return sum(run.share for run in self.runs) / len(self.runs)


class Pace:
    """Estimates the time left from the progress so far."""

    def __init__(self, runs: Sequence[Shown]) -> None:
        self._runs, self._began = runs, time.monotonic()
        self._before = sum(run.share for run in runs)

    def progress(self) -> Progress:
        """How far the runs are now."""
        share = sum(run.share for run in self._runs)
        pace = (time.monotonic() - self._began) / max(share - self._before, 1e-9)
        left = pace * (len(self._runs) - share) if share > self._before else math.nan
        return Progress(self._runs, left)


@dataclass(frozen=True)
class Processes:
    """Runs as processes of this machine."""

    jobs: int
    server: ForkServer = field(default_factory=ForkServer, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.jobs} at a time"

    def start(self, run: Run, data: Path | None) -> Job:
        """One more process, with its share of the cores."""
        threads = threads_of_each(self.jobs)
        if not can_fork():
            return start_process(run.folder, data, threads)
        arguments = _arguments(run.folder, data)
        return self.server.start(arguments, run.folder / OUTPUT, _environment(threads), threads)

    def at_once(self, runs: Sequence[Run], data: Path | None) -> int:
        """One: the next trial depends on the result of this one."""
        return 1

    def pool(self) -> Executor:
        """Fresh processes, each with its share of the cores."""
        return ProcessPoolExecutor(
            self.jobs,
            mp_context=get_context("spawn"),
            initializer=torch.set_num_threads,
            initargs=(threads_of_each(self.jobs),),
        )


def run_all(
    runs: Sequence[Run],
    *,
    data: Path | None,
    runner: Runner,
    show: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Run what is not done yet, as many at a time as `runner` takes. If a run dies, the others go on.

    On Ctrl-C, SIGTERM and SIGHUP every run is asked to save itself, and waited for; a second one
    stops them at once, each at its last checkpoint.
    """
    for run in runs:
        _reuse(run)
    waiting = [run for run in runs if not run.done]
    for run in waiting:
        write_wanted(run)  # all of them: after an interrupt, those never begun are known to be missing
    active: list[Run] = []
    pace = Pace(runs)
    with _signals_as_ctrl_c():
        try:
            while waiting or active:
                while waiting and len(active) < runner.jobs:
                    run = waiting.pop(0)
                    run.process = runner.start(run, data)
                    active.append(run)
                time.sleep(POLL)
                for run in [run for run in active if run.process and run.process.poll() is not None]:
                    active.remove(run)
                    _collect(run)
                show(pace.progress())
        except BaseException:
            jobs = [run.process for run in active if run.process]
            if jobs:
                count = f"{len(jobs)} runs" if len(jobs) > 1 else "the run"
                say(f"Stopping: {count} will finish a step and save; press again to stop at once.")
            _stop(jobs)
            raise
    show(Progress(runs, math.nan))


def _stop(jobs: Sequence[Job], sig: int = signal.SIGTERM) -> None:
    """Ask all to save themselves, and wait; asked again, they stop within their step.

    Not by SIGINT at first: what a script starts in the background ignores it until it trains.
    """
    for job in jobs:
        job.send_signal(sig)
    try:
        for job in jobs:
            job.wait()
    except KeyboardInterrupt:
        _stop(jobs, signal.SIGINT)


def jobs_that_fit(memory_mb: float) -> int:
    """How many runs fit side by side: one a core, and no more than the memory holds."""
    return max(1, min(os.cpu_count() or 1, int(_free_memory_mb() / max(memory_mb, 1.0))))


def threads_of_each(jobs: int) -> int:
    """A run's share of the cores; no more than the user asked for."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    share = max((os.cpu_count() or 1) // jobs, 1)
    return min(share, int(asked)) if asked.isdigit() and int(asked) else share


@contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """SIGTERM of schedulers and SIGHUP of a closed terminal raise KeyboardInterrupt, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    shown = terminals()

    def stop(number: int, frame: FrameType | None) -> None:
        silence(shown)
        raise KeyboardInterrupt

    others = [one for one in SIGNALS if one != signal.SIGINT]
    handled = [one for one in others if signal.getsignal(one) != signal.SIG_IGN]
    before = {one: signal.signal(one, stop) for one in handled}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _reuse(run: Run) -> None:
    """Take over a finished run; one that was made with other settings is refused."""
    if (run.folder / WANTED).exists() and read_own_config(run.folder / WANTED) != run.config:
        raise RunFolderError(
            f"{run.folder} holds a run with other settings: choose another --out, or remove it."
        )
    if Results.exists(run.folder):
        run.results = Results.read(run.folder)


def write_wanted(run: Run) -> None:
    """Make a run's folder, and write the configuration that it is to train."""
    run.folder.mkdir(parents=True, exist_ok=True)
    write_config(run.config, run.folder / WANTED)


def start_process(folder: Path, data: Path | None, threads: int) -> subprocess.Popen[bytes]:
    """Train the configuration in a folder in a process of its own, or continue the run there."""
    with (folder / OUTPUT).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "gradaccord", *_arguments(folder, data)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**_environment(threads), PARENT: str(os.getpid())},
            start_new_session=True,  # Ctrl-C reaches it only through us, once
        )


def _arguments(folder: Path, data: Path | None) -> list[str]:
    arguments = ["train", str(folder / WANTED), "--out", str(folder)]
    if data is not None:
        arguments += ["--data", str(data)]
    if (folder / CONFIG).exists() or any(folder.glob(f"*/{CONFIG}")):
        arguments.append("--resume")
    return arguments


def _environment(threads: int) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}


def _collect(run: Run) -> None:
    code = run.process.returncode if run.process else 1
    if Results.exists(run.folder):
        run.results = Results.read(run.folder)
        return
    lines = [line for line in tail(run.folder / OUTPUT) if line.strip()]
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    last = lines[-1].strip().rstrip(".") if lines else "it printed nothing"
    run.failure = f"{how}: {last}"


def _share(log: Path) -> float:
    """The share in the last whole line of a log."""
    for line in reversed(tail(log)):
        try:
            step = StepRecord.of(json.loads(line))
        except ValueError:
            continue
        if step is not None and step.phase == "main":
            return min(step.share, 0.99)
    return 0.0


def _free_memory_mb() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            entries = dict(line.split(":", 1) for line in file)
        return float(entries["MemAvailable"].split()[0]) / 1024
    except (OSError, KeyError, ValueError):
        return 4096.0
