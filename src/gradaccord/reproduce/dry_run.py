"""A dry run of an entry: what would be run, and the time and memory it would take on this machine."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from gradaccord.reproduce.entry import COMPARE, FEWSHOT, Design, Entry, Plain, Size
from gradaccord.reproduce.grid import Grid
from gradaccord.reproduce.plan import Planned, missing_inputs
from gradaccord.reproduce.run import config_of
from gradaccord.reproduce.special.pool import find_experiment
from gradaccord.runs.duration import duration
from gradaccord.runs.usage import peak_memory
from gradaccord.train.dry_run import estimate

ITERATIONS = 3  # of a few-shot run, timed
TRIED = 200  # steps of an experiment on a synthetic problem, timed
_COUNTED = {True: ", evaluation and probes included", False: ", evaluation not counted"}
BRIEF = ("valley",)  # experiments whose setting `steps` may be cut to `TRIED`


def dry_run(
    entry: Entry, size: Size, planned: Sequence[Planned], data: Path | None
) -> Iterator[list[str]]:
    """Paragraphs, one by one: settings, a table of times, and the total."""
    design = entry.design(size)
    yield list(_described(entry, design, size))
    absent = missing_inputs(design, planned, data)
    if absent is not None:
        yield [f"Nothing was timed. {absent}"]
        return
    kinds = {(one.variant, one.budget, one.arm): one for one in reversed(planned)}
    rows, seconds = [], 0.0
    for one in reversed(kinds.values()):
        steps, own, memory = _timed(entry.kind, one, data)
        count = sum((other.variant, other.budget, other.arm) == _key(one) for other in planned)
        seconds += own * count
        time_, memory_ = ("–", "–") if math.isnan(own) else (duration(own), f"{memory:,.0f}")
        rows.append((", ".join(_key(one)), str(count), steps, time_, memory_))
    headings = ("variant, budget, arm", "runs", "steps", "time per run", "MB")
    yield Grid(f"Timed on this machine{_COUNTED[entry.kind == COMPARE]}", headings, tuple(rows)).text()
    stated = "" if design.core_hours is None else f" The entry states {design.core_hours:g} core-hours."
    if math.isnan(seconds):
        yield [f"{len(planned)} runs; an experiment of this kind is not timed.{stated}"]
    else:
        yield [f"{len(planned)} runs, {duration(seconds)} one after another.{stated}"]


def _key(planned: Planned) -> tuple[str, str, str]:
    return planned.variant, planned.budget, planned.arm


def _described(entry: Entry, design: Design, size: Size) -> Iterator[str]:
    """Model, data, methods and hyper-parameters, as the entry has them."""
    yield f"{entry.name}, {size}: {entry.title}"
    for label, lines in (
        ("in place of the published setting", design.substitutions),
        ("not stated in the paper", design.unstated),
        ("needs", design.needs),
    ):
        for line in lines:
            yield f"{label}: {line}"
    for name, content in (("every run", design.config), *_named("variant", design.variants)):
        yield from _nested(name, content)
    for name, content in _named("arm", design.arms):
        yield from _nested(name, content)
    yield f"seeds: {design.seeds}; budgets: {', '.join(design.budgets)}"


def _named(kind: str, contents: dict[str, Plain]) -> list[tuple[str, Plain]]:
    return [(f"{kind} {name}", content) for name, content in contents.items()]


def _nested(name: str, content: Plain) -> Iterator[str]:
    """A line for each key, for readers of 80 columns."""
    yield name + ("" if content else ": no settings of its own")
    for key, value in content.items():
        inner = value.items() if key == "tasks" and isinstance(value, dict) else [(None, value)]
        for task, own in inner:
            yield f"  {key if task is None else f'{key}.{task}'}: {_flow(own)}"


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=math.inf, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def _timed(kind: str, planned: Planned, data: Path | None) -> tuple[str, float, float]:
    """Steps of a run, its seconds and its memory in MB; NaN for a kind that cannot be timed briefly."""
    if kind == COMPARE:
        found = estimate(config_of(planned, data), data)
        return f"{found.steps:,}", found.seconds, found.memory_mb
    with tempfile.TemporaryDirectory() as folder:
        if kind == FEWSHOT:
            return _few_shot(planned.settings, data, Path(folder))
        if kind in BRIEF:
            steps = int(planned.settings["steps"])
            tried = planned.settings | {"steps": min(TRIED, steps)}
            run = find_experiment(kind)
            run(tried | {"steps": 1}, planned.seed, data=data, folder=Path(folder))  # imports, caches
            began = time.perf_counter()
            run(tried, planned.seed, data=data, folder=Path(folder))
            taken = (time.perf_counter() - began) * steps / tried["steps"]
            return f"{steps:,}", taken, peak_memory()
    return "–", math.nan, math.nan


def _few_shot(settings: Plain, data: Path | None, folder: Path) -> tuple[str, float, float]:
    """Times a few meta-iterations, of which the fastest counts; validation and test are not timed."""
    from gradaccord.data.images.class_splits import load
    from gradaccord.meta.run import Run
    from gradaccord.meta.settings import settings_for

    chosen = settings_for(**(settings | {"validation_tasks": 1}))
    splits = load(chosen.data, chosen.data_dir or data, size=chosen.size)
    run = Run(chosen, splits, folder)
    ends: list[float] = []

    def stop() -> bool:
        ends.append(time.perf_counter())
        return len(ends) > ITERATIONS

    run.train(stop=stop)
    pace = min(after - before for before, after in pairwise(ends))
    iterations = chosen.iterations or 0
    return f"{iterations:,}", pace * iterations, peak_memory()
