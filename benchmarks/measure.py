"""Interleaved CPU-time ratios and peak memory, the two measurements that all benchmarks share."""

from __future__ import annotations

import datetime
import gc
import multiprocessing
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

Arm = Callable[[], object]


def cpu_times(arms: dict[str, Arm], rounds: int, warmup: int = 1) -> dict[str, list[float]]:
    """CPU seconds of each arm, `rounds` times, all arms in every round and in a random order.

    In a rotating order, each arm would always find the caches as the same other arm left them. CPU time
    of the process, all threads: on a busy machine, wall time would measure other programs.
    """
    names = list(arms)
    times: dict[str, list[float]] = {name: [] for name in names}
    order = random.Random(0)
    for round_ in range(-warmup, rounds):
        for name in order.sample(names, len(names)):
            start = time.process_time()
            arms[name]()
            if round_ >= 0:
                times[name].append(time.process_time() - start)
    return times


def ratios(times: dict[str, list[float]], floor: str) -> dict[str, float]:
    """Median over rounds of each arm's time over the floor's time in the same round."""
    return {
        name: statistics.median(t / f for t, f in zip(values, times[floor], strict=True))
        for name, values in times.items()
    }


def peak_memory(make_arm: Callable[..., Arm], *args: object) -> float:
    """The most MB that an arm's steps need beyond the resting model, in a new process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (make_arm, args))


def _peak(make_arm: Callable[..., Arm], args: tuple[object, ...]) -> float:
    arm = make_arm(*args)
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # start the high-water mark afresh
    for _ in range(3):
        arm()
    return _status("VmHWM") - before


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def publish(section: str, text: str, write: bool) -> None:
    """Print a result and, if asked, put it between the section's marks in benchmarks/README.md."""
    print(text)
    if write:
        readme = Path(__file__).parent / "README.md"
        start, end = f"<!-- {section} -->\n", f"<!-- /{section} -->"
        head, rest = readme.read_text().split(start)
        readme.write_text(f"{head}{start}{text}\n{end}{rest.split(end)[1]}")


def setting(command: str, threads: int) -> str:
    """When, with what and how a table was measured."""
    return (
        f"{datetime.date.today()}, `python {command}`, torch {torch.__version__}, "
        f"{platform.machine()}, {threads} thread(s)."
    )


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
