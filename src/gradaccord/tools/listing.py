"""`gradaccord list`: the methods, kinds of tasks, data sets and recipes that there are."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from rich import box
from rich.console import RenderableType
from rich.table import Table

LISTS = ("methods", "tasks", "data", "recipes")


def listing(what: str, data: Path | None = None) -> RenderableType:
    """One of `LISTS` as a table."""
    if what == "methods":
        return methods()
    if what == "tasks":
        return tasks()
    if what == "recipes":
        return recipes()
    from gradaccord.data.commands import data_table

    return data_table(data)


def methods() -> Table:
    """Every method with its control, cost and options."""
    from gradaccord.train.methods import METHODS, SINGLE_TASK

    table = _table("method", "what it does", "compare with", "gradients per batch", "options")
    for entry in METHODS.values():
        options = ", ".join(f"{k}={v}" for k, v in entry.known_options().items() if _plain(v))
        table.add_row(
            entry.name,
            entry.summary,
            _control(entry.name),
            f"{entry.spent({}):.1f}",
            options,
        )
    table.add_row(SINGLE_TASK, "one model per task", "–", "1.0", "")
    table.add_row(
        "+smart, +swep", "in `compare`: a regulariser added, e.g. sum+smart", "without", "", ""
    )
    table.add_row(
        "+recadam", "in `compare`: the optimiser RecAdam, e.g. sum+recadam", "without", "", ""
    )
    return table


def tasks() -> Table:
    """Every kind of task with its metric and options."""
    from dataclasses import MISSING, fields

    from gradaccord.tasks.kinds import KINDS

    table = _table("kind", "what is learned", "metric", "options")
    for kind in KINDS:
        cls = KINDS[kind]
        shown = [
            f.name if f.default is MISSING else f"{f.name}={f.default!r}"
            for f in fields(cls)  # type: ignore[arg-type]
        ]
        doc = (cls.__doc__ or "").strip().splitlines()[0].rstrip(".")
        table.add_row(kind, doc, cls.metric, ", ".join(shown))
    return table


def recipes() -> Table:
    """Every configuration that comes with the library."""
    table = _table("recipe", "what it shows")
    for name, text in sorted(recipe_texts().items()):
        table.add_row(name, text.splitlines()[0].lstrip("# "))
    return table


def recipe_texts() -> dict[str, str]:
    """The recipes' files by name."""
    folder = resources.files("gradaccord.recipes")
    found = (entry for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return {entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8") for entry in found}


def _control(name: str) -> str:
    from gradaccord.compare.specs import Spec

    return str(Spec(name).control() or "–")


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
