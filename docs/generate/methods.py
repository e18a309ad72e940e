"""The generated parts of the methods' pages, from their registry, docstrings and recorded figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measured import measured
from parts import options_table, table, update_of

from gradaccord.compare.specs import Spec
from gradaccord.methods.registry import ADDITIONS, METHODS, SINGLE_TASK, Entry, Named

GROUPS = {
    "combine": "Combine gradients",
    "weigh": "Weigh losses",
    "align": "Align batches",
    "trajectory": "Trajectories",
    "regularize": "Regularise",
    "": "Baselines without a class",
}
FEEDS = {
    "all": "a batch of every task",
    "one": "one batch of one task",
    "pair": "two batches",
    "blocks": "one batch; the task changes after each trajectory",
}
TASKS = 3  # with how many tasks memory is shown


def names() -> tuple[str, ...]:
    """Every name that has a page."""
    return (*METHODS, SINGLE_TASK, *ADDITIONS)


def group_of(name: str) -> str:
    """The room of the method's class."""
    named = METHODS.get(name) or ADDITIONS.get(name)
    return named.home.partition(".")[0] if named else ""


def navigation(pages: list[Path]) -> list[Any]:
    """The overview, then the methods by group in the order of the registry."""
    known = {path.stem: f"methods/{path.name}" for path in pages}
    listed: list[Any] = [known.pop(name) for name in ("index",) if name in known]
    listed.append({"What they share": "methods.md"})
    for group, title in GROUPS.items():
        inside = [known.pop(name) for name in names() if group_of(name) == group and name in known]
        listed += [{title: inside}] if inside else []
    return [*listed, *known.values()]


def part(argument: str) -> str:
    """`<!-- method: update pcgrad -->` and the like."""
    what, _, name = argument.partition(" ")
    return {"update": _update, "cost": _cost, "options": _options, "measured": measured}[what](name)


def _named(name: str) -> Named:
    return METHODS.get(name) or ADDITIONS[name]


def _update(name: str) -> str:
    return update_of(_named(name).load())


def _cost(name: str) -> str:
    """What a step is fed, what it costs and what it is compared with."""
    entry = _named(name)
    rows = [("Class", f"[`gradaccord.{entry.class_name}`][gradaccord.{entry.class_name}]")]
    written = f"`method: {name}`"
    if not isinstance(entry, Entry):
        written = f"`train.optimizer: {name}`" if entry.is_optimizer else f"`regularize: {name}`"
    rows.append(("In a configuration file", written))
    rows.append(("Batch gradients for each batch", f"{entry.cost_with({}):g}"))
    if isinstance(entry, Entry):
        rows.insert(2, ("One call of `backward` takes", FEEDS[entry.feed_with({})]))
        copies = f"{entry.copies_with(TASKS, {}):g}"
        rows.append((f"Copies of gradients or weights ({TASKS} tasks)", copies))
        rows.append(("Compare with", _controls(name)))
    else:
        rows.append(("Compare with", "the same method without it"))
    return table(("", ""), rows)


def _controls(name: str) -> str:
    found = [f"`{control}`" for control in map(str, Spec(name).controls())]
    return " and ".join(found) or "nothing: it is a baseline"


def _options(name: str) -> str:
    entry = _named(name)
    return options_table(entry.load(), entry.options())


def overview(_: str) -> str:
    """A table for each group: name, what it does, cost, what to compare it with."""
    tables = []
    for group, title in GROUPS.items():
        inside = [name for name in names() if group_of(name) == group]
        rows = [_overview_row(name) for name in inside]
        head = ("Method", "What it does", "Gradients per batch", "Compare with")
        tables.append(f"## {title}\n\n{table(head, rows)}\n")
    return "\n".join(tables)


def _overview_row(name: str) -> tuple[str, ...]:
    link = f"[`{name}`]({name}.md)"
    if name == SINGLE_TASK:
        return link, "one model for each task", "1", "nothing: it is a baseline"
    entry = _named(name)
    controls = _controls(name) if isinstance(entry, Entry) else "the same without it"
    return link, entry.summary, f"{entry.cost_with({}):g}", controls
