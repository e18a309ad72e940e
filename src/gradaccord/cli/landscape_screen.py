"""What `gradaccord landscape` shows on a terminal: progress, the tables, and how to read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gradaccord.cli.screen import Screen, bar
from gradaccord.runs.duration import duration
from gradaccord.showcase.landscape.plane import STARTS
from gradaccord.showcase.landscape.runs import (
    CONTROLS,
    LR,
    RECADAM_LR,
    REPTILE_LR,
    SEQUENTIAL,
    SWEPT,
    LandscapeSettings,
    Result,
    Row,
    findings,
    mean_of,
)
from gradaccord.showcase.landscape.runs import Progress as ProgressCall

NOTES = f"""\
end       mean of the last fifth of the iterates, mean over seeds
ΣL        sum of the losses, mean over those iterates, ± its standard error;
          -254 in x2, -239 in x1 and x3, -168 at the centroid
cosine    between the tasks' gradients, mean over pairs and those iterates;
          place: the same at a run's mean iterate, so without jitter
trapped   share of runs that end within 1 of an optimum, and of which one
GradNorm  has its losses shifted by +200: it needs positive losses
rates     {LR:g}; RecAdam {RECADAM_LR:g}; Reptiles {REPTILE_LR:g} in the inner steps
controls  {CONTROLS[SEQUENTIAL]} of {SEQUENTIAL}, {CONTROLS["DotProd"]} of DotProd"""


def introduction(settings: LandscapeSettings) -> str:
    """The problem and the settings, shown before the runs."""
    return (
        "Three tasks on a plane, L_i = -200 exp(-0.2 |φ - x_i|), each with its optimum\n"
        "x1 = (0, 10), x2 = (0, 0), x3 = (10, 0): every x_i is a trap.\n"
        f"Three starts, {settings.seeds} seed{'s' if settings.seeds > 1 else ''}, {settings.steps} "
        f"steps; Reptiles: {settings.outer_steps} outer steps of\n{settings.inner_steps} inner ones, "
        f"η = {settings.outer_lr:g}."
    )


@contextmanager
def progress(console: Console) -> Iterator[ProgressCall]:
    """The callback for `run`: a bar with the time left, or lines where there is no terminal."""

    def line(state: tuple[str, int, int, float]) -> str:
        method, done, total, left = state
        return f"{done / total:.0%} done, {duration(left)} left ({method})"

    def picture(state: tuple[str, int, int, float]) -> Table:
        method, done, total, left = state
        return bar(f"{method:18}", done / total, f"{duration(left)} left")

    screen = Screen(console, picture, line)
    with screen.running():
        yield lambda *state: screen.show(state)


def tables(result: Result) -> Group:
    """A table for each start, the sweep over learning rates, the findings, and how to read them."""
    parts: list[RenderableType] = []
    for x, y in STARTS.tolist():
        parts.append(_methods(result, (x, y)))
    parts.append(_sweep(result))
    parts += [Text(sentence, style="bold") for sentence in findings(result)]
    return Group(*parts, "", Text(NOTES, style="dim"))


def _methods(result: Result, start: tuple[float, float]) -> Table:
    table = _table(f"From {_point(start, 0)}")
    table.add_column("method", no_wrap=True)
    for heading in ("end", "ΣL", "cosine", "place"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("trapped", no_wrap=True)
    for row in result.rows:
        if row.start == start:
            table.add_row(
                row.method,
                _point(row.end, 1),
                _plus_minus(row.loss, row.loss_error, 0),
                _plus_minus(row.cosine, row.cosine_error, 3),
                f"{row.end_cosine:.3f}",
                _trapped(row),
            )
    return table


def _sweep(result: Result) -> Table:
    """One row per rate and one column per method; means over the starts."""
    table = _table("At other rates, means over the three starts")
    table.add_column("")
    table.add_column("rate", no_wrap=True)
    for method in SWEPT:
        table.add_column(method.replace("Sequential", "Seq."), justify="right", no_wrap=True)
    for name, quantity, form in (
        ("ΣL", "loss", ".0f"),
        ("cosine", "cosine", ".3f"),
        ("trapped", "trapped_share", ".0%"),
    ):
        for rate in result.settings.rates:
            cells = [f"{mean_of(result.of(method, rate), quantity):{form}}" for method in SWEPT]
            last = rate == result.settings.rates[-1]
            first = rate == result.settings.rates[0]
            table.add_row(name if first else "", f"{rate:g}", *cells, end_section=last)
    return table


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _point(point: tuple[float, float], digits: int) -> str:
    return f"({point[0]:.{digits}f}, {point[1]:.{digits}f})"


def _trapped(row: Row) -> str:
    where = ",".join(task.removeprefix("x") for task in row.trapped)
    return f"{row.trapped_share:.0%}" + (f" x{where}" if where else "")


def _plus_minus(value: float, error: float | None, digits: int) -> str:
    return f"{value:.{digits}f}" + ("" if error is None else f" ±{error:.{digits}f}")
