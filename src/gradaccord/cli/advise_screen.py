"""What `advise` shows: a bar with the time left, then the measurements and the advice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gradaccord.cli.screen import Screen, bar
from gradaccord.compare.advisor import PLAIN, SEEDS, Advice
from gradaccord.compare.recommendation import conflicts, why
from gradaccord.compare.specs import Spec
from gradaccord.core.watch import Watch
from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.probe.conflict import Bounds, Conflict
from gradaccord.runs.duration import duration

NAME = 16  # characters of a task's name in the tables
PAIRS = 15  # pairs of tasks that are listed, the lowest cosines first


@contextmanager
def measuring(console: Console) -> Iterator[Watch]:
    """A bar with the time that is left, or a line now and then."""

    def left(now: tuple[str, float, float]) -> str:
        return f"{duration(now[2] - now[1])} left"

    screen: Screen[tuple[str, float, float]] = Screen(
        console,
        lambda now: bar(now[0], now[1] / now[2], left(now)),
        lambda now: f"{now[0]}, {now[1] / now[2]:.0%}, {left(now)}",
    )
    with screen.running():
        yield Watch(lambda what, done, total: screen.show((what, done, total)), screen.say)


def shown(advice: Advice) -> Group:
    """All that `advise` prints, except the command to run next."""
    return Group(*_parts(advice))


def _parts(advice: Advice) -> Iterator[RenderableType]:
    found = advice.conflict
    shared = f", {found.shared / found.trained:.1%} shared by two tasks or more" if found.pairs else ""
    yield Text(
        f"{found.trained / 1e6:,.2f} million trained parameters{shared}. Measured on {found.batches} "
        f"batches of each task, after {advice.steps} step{'s' * (advice.steps > 1)} of plain training."
    )
    yield Text()
    yield _tasks(found)
    if found.pairs:
        yield Text()
        yield _pairs(found)
    yield Text()
    yield _costs(advice)
    yield Text("* without activations. Time is processor time, on the same batches.")
    if advice.untimed:
        more = [f"{name} {count:.2g}, " for name, count in advice.untimed.items() if count != 1]
        yield Text(
            f"{len(advice.untimed)} other methods were not timed (a longer --seconds times more). "
            f"Gradients that they compute per batch: {''.join(more)}{'the others ' if more else ''}1."
        )
    for method, error in advice.refused.items():
        yield Text(f"{method} cannot be used here: {error}")
    yield Text("\nWhat follows from this", style="bold")
    for reason in advice.recommended.reasons:
        yield Text(f"- {reason}")
    yield from _advice(advice)


def _advice(advice: Advice) -> Iterator[RenderableType]:
    if advice.recommended.methods:
        yield Text("\nWorth comparing", style="bold")
        for method in advice.recommended.methods:
            controls = ", ".join(map(str, Spec.parse(method).controls()))
            beside = f"; control: {controls}" if controls else ""
            yield Text(f"- {_called(method)} ({_relative(advice, method)}): {why(method)}{beside}")
    else:
        yield Text(
            "\nGradients cannot show whether sharing helps at all. Training each task alone (stl) can."
        )
    yield Text(
        f"To run next: {advice.runs} runs ({SEEDS} seeds of each method), about "
        f"{duration(advice.run_seconds)} of processor time each, "
        f"{duration(advice.runs * advice.run_seconds)} in all:"
    )


def _tasks(found: Conflict) -> Table:
    table = _table("task")
    for heading in ("loss", "gradient\nlength", "cosine with\na plain step", "two of its own batches:\n"
                    "cosine", "below 0"):  # fmt: skip
        table.add_column(heading, justify="right")
    for task in found.tasks:
        table.add_row(
            Text(_cut(task.name)),
            f"{task.loss:.2f}",
            _number(task.length),
            _bounds(task.step) if len(found.tasks) > 1 else "-",
            f"{task.batches.cosine:.2f}",
            f"{task.batches.apart:.0%}",
        )
    return table


def _pairs(found: Conflict) -> Table:
    table = _table("tasks")
    for heading in ("cosine of their gradients\n[95 %, all pairs together]", "", "single batches:\n"
                    "cosine", "below 0"):  # fmt: skip
        table.add_column(heading, justify="right")
    by_cosine = sorted(found.pairs, key=lambda pair: pair.cosine.value)
    for pair in by_cosine[:PAIRS]:
        table.add_row(
            Text(f"{_cut(pair.first)}, {_cut(pair.second)}"),
            _bounds(pair.cosine),
            _verdict(pair.cosine, conflicts(pair)),
            f"{pair.batches.cosine:.2f}",
            f"{pair.batches.apart:.0%}",
        )
    if len(by_cosine) > PAIRS:
        table.add_row(f"and {len(by_cosine) - PAIRS} with higher cosines")
    return table


def _verdict(cosine: Bounds, in_conflict: bool) -> str:
    if not cosine.known:
        return "noise"
    if in_conflict:
        return "conflict"
    return "agree" if cosine.low > 0 else "no conflict"


def _costs(advice: Advice) -> Table:
    """A row for plain training, then the advised methods and their controls, then other timed ones."""
    table = _table("method")
    for heading in ("time per batch", "to plain", "memory*"):
        table.add_column(heading, justify="right")
    for method, cost in advice.costs.items():
        table.add_row(
            Text(_called(method)),
            f"{1000 * cost.batch_seconds:,.0f} ms",
            _relative(advice, method),
            f"{cost.memory_mb:,.0f} MB",
        )
    return table


def _called(method: str) -> str:
    """A method's name in plain words, with the name that --methods takes."""
    return f"each task alone ({method})" if method == SINGLE_TASK else method


def _relative(advice: Advice, method: str) -> str:
    return f"{advice.costs[method].batch_seconds / advice.costs[str(PLAIN)].batch_seconds:.2f} x"


def _table(first: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True, overflow="ellipsis")
    return table


def _cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _number(value: float) -> str:
    return f"{value:.3g}" if value == value else "noise"


def _bounds(bounds: Bounds) -> str:
    return str(bounds) if bounds.known else "-"
