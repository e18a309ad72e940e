"""Run everything: side by side in processes, finished runs reused, interrupted ones resumed."""

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
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from gradaccord.compare.specs import Spec
from gradaccord.runs.files import CONFIG, LOG, RunFolderError
from gradaccord.runs.interrupts import PARENT, SIGNALS, silence, terminals
from gradaccord.runs.results import Results
from gradaccord.train.config import Config
from gradaccord.train.config_file import read_own_config, write_config
from gradaccord.train.progress import NOW

OUTPUT = "output.txt"  # what a run printed
WANTED = "wanted.yaml"  # the configuration that its process is given
POLL = 0.5  # seconds between two looks at the processes


@dataclass
class Run:
    """One method on one seed."""

    spec: Spec
    seed: int
    folder: Path
    config: Config
    results: Results | None = None
    failure: str | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """What a screen calls it."""
        return f"{self.spec}, seed {self.seed}"

    @property
    def done(self) -> bool:
        """Finished, or failed for good."""
        return self.results is not None or self.failure is not None

    @property
    def share(self) -> float:
        """How far it is, 0 to 1."""
        return 1.0 if self.done else _share(self.folder / LOG)

    @property
    def now(self) -> str:
        """What it does beside steps, by the last line that it printed; empty if it takes steps."""
        last = _tail(self.folder / OUTPUT)[-1:]
        return last[0].partition(NOW)[2].strip() if last else ""


@dataclass(frozen=True)
class Progress:
    """How far all runs are, for a screen."""

    runs: Sequence[Run]
    seconds_left: float

    @property
    def share(self) -> float:
        """Of all the work."""
        return sum(run.share for run in self.runs) / len(self.runs)


def run_all(
    runs: Sequence[Run],
    *,
    data: Path | None,
    jobs: int,
    show: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Do what is not done yet, `jobs` processes at a time. A run that dies leaves the others going.

    On Ctrl-C, SIGTERM and SIGHUP every process is asked to save itself, and waited for; a second one
    stops them at once, each at its last checkpoint.
    """
    for run in runs:
        _reuse(run)
    waiting = [run for run in runs if not run.done]
    active: list[Run] = []
    began = time.monotonic()
    share_before = sum(run.share for run in runs)
    with _signals_as_ctrl_c():
        try:
            while waiting or active:
                while waiting and len(active) < jobs:
                    run = waiting.pop(0)
                    run.process = _start(run, data, jobs)
                    active.append(run)
                time.sleep(POLL)
                for run in [run for run in active if run.process and run.process.poll() is not None]:
                    active.remove(run)
                    _collect(run)
                share = sum(run.share for run in runs)
                pace = (time.monotonic() - began) / max(share - share_before, 1e-9)
                left = pace * (len(runs) - share) if share > share_before else math.nan
                show(Progress(runs, left))
        except BaseException:
            processes = [run.process for run in active if run.process]
            if processes:
                count = f"{len(processes)} runs" if len(processes) > 1 else "the run"
                say(f"Stopping: {count} will finish a step and save; press again to stop at once.")
            _stop(processes)
            raise
    show(Progress(runs, math.nan))


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask all to save themselves, and wait; asked again, they stop within their step."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        _stop(processes)


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


def _start(run: Run, data: Path | None, jobs: int) -> subprocess.Popen[bytes]:
    run.folder.mkdir(parents=True, exist_ok=True)
    write_config(run.config, run.folder / WANTED)
    command = [sys.executable, "-m", "gradaccord", "train", str(run.folder / WANTED)]
    command += ["--out", str(run.folder)]
    if data is not None:
        command += ["--data", str(data)]
    if (run.folder / CONFIG).exists() or any(run.folder.glob(f"*/{CONFIG}")):
        command.append("--resume")
    threads = str(threads_of_each(jobs))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
    environment[PARENT] = str(os.getpid())
    with (run.folder / OUTPUT).open("ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches it from us alone, once
        )


def _collect(run: Run) -> None:
    code = run.process.returncode if run.process else 1
    if Results.exists(run.folder):
        run.results = Results.read(run.folder)
        return
    lines = (run.folder / OUTPUT).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    last = lines[-1].strip().rstrip(".") if lines else "it printed nothing"
    run.failure = f"{how}: {last}"


def _tail(path: Path) -> list[str]:
    """The last lines of a file that is being written."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - 8192, 0))
            return file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _share(log: Path) -> float:
    """The share in the last whole line of a log."""
    for line in reversed(_tail(log)):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record.get("event") == "step" and record.get("phase") == "main":
            return min(float(record["share"]), 0.99)
    return 0.0


def _free_memory_mb() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            entries = dict(line.split(":", 1) for line in file)
        return float(entries["MemAvailable"].split()[0]) / 1024
    except (OSError, KeyError, ValueError):
        return 4096.0
