"""The command `list`: methods, kinds of tasks, data sets, recipes, the configuration schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradaccord.cli.exit_codes import user_mistakes
from gradaccord.cli.options import DataOption
from gradaccord.methods.registry import Named
from gradaccord.recipes import recipe_texts


def list_(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="methods, tasks, data, recipes or schema.")
    ],
    data: DataOption = None,
) -> None:
    """List the methods, kinds of tasks, data sets or recipes.

    [bold]gradaccord list data --data DIR[/bold]

    The JSON schema of configuration files has every key, for editors:

    [bold]gradaccord list schema > gradaccord.schema.json[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        listing(what, data)


def listing(what: str, data: Path | None = None) -> None:
    """Print the methods, tasks, data or recipes, or the schema of configurations."""
    tables = {"methods": methods, "tasks": tasks, "recipes": recipes}
    if what not in (*tables, "data", "schema"):
        raise ValueError(
            f"`gradaccord list` has no list {what!r}: use methods, tasks, data, recipes or schema."
        )
    if what == "schema":
        from gradaccord.train.config import Config

        print(json.dumps(Config.model_json_schema(), indent=2))
        return
    console = Console()
    if what == "data":
        from gradaccord.cli.list_data import list_data

        list_data(data, console)
        return
    console.print(tables[what]())


def methods() -> Table:
    """Every method: what it does, its control, cost and options."""
    from gradaccord.compare.specs import Spec
    from gradaccord.methods.registry import ADDITIONS, METHODS, SINGLE_TASK

    table = _table("method", "what it does, and how")
    for entry in METHODS.values():
        controls = " and ".join(map(str, Spec(entry.name).controls()))
        facts = [f"compare with {controls}"] if controls else ["a baseline"]
        if entry.loss_only:
            facts.append("by losses alone")
        if entry.cost_with({}) != 1:
            facts.append(f"{entry.cost_with({}):g} gradients a batch")
        if "memory" in entry.options():
            facts.append("T gradients of memory, or less with memory=half, cpu, sketch")
        _row(table, entry.name, f"{entry.summary} ({'; '.join(facts)})", _shown(entry))
    _row(table, SINGLE_TASK, "one model per task")
    for added in ADDITIONS.values():
        kind = "an optimiser" if added.is_optimizer else "a regulariser"
        cost = "" if added.cost_with({}) == 1 else f"; {added.cost_with({}):g} gradients a batch"
        note = f"{kind}; its control is the method alone{cost}; e.g. sum+{added.name}"
        _row(table, f"+{added.name}", f"{added.summary} ({note})", _shown(added))
    return table


def tasks() -> Table:
    """Every kind of task: what is learned, its metric and options."""
    from dataclasses import MISSING, fields

    from gradaccord.tasks.registry import KINDS

    table = _table("kind", "what is learned, and its options")
    for kind in KINDS:
        cls = KINDS[kind]
        shown = [
            f.name if f.default is MISSING else f"{f.name}={f.default!r}"
            for f in fields(cls)  # type: ignore[arg-type]
            if f.name != "metric"
        ]
        doc = (cls.__doc__ or "").strip().splitlines()[0].rstrip(".")
        others = [one for one in get_args(get_type_hints(cls)["metric"]) if one != cls.metric]
        metrics = cls.metric + (f"; or metric: {', '.join(others)}" if others else "")
        _row(table, kind, f"{doc} ({metrics})", ", ".join(shown))
    return table


def recipes() -> Table:
    """Every configuration that comes with the library."""
    table = _table("recipe", "what it shows")
    for name, text in recipe_texts().items():
        table.add_row(name, text.splitlines()[0].lstrip("# "))
    for name, text in recipe_texts("pretrain").items():
        table.add_row(name, f"{text.splitlines()[0].lstrip('# ')} (for gradaccord pretrain)")
    return table


def _shown(entry: Named) -> str:
    """The options that a user can type, with their defaults."""
    known = {name: option.default for name, option in entry.options().items()}
    plain = (type(None), bool, int, float, str)
    return ", ".join(f"{k}={_typed(v)}" for k, v in known.items() if isinstance(v, plain))


def _typed(value: object) -> str:
    """As a user would type it: YAML has null and true for None and True."""
    return value if isinstance(value, str) else json.dumps(value)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading)
    return table


def _row(table: Table, name: str, text: str, options: str = "") -> None:
    """A name, what it is, and its options in grey below."""
    table.add_row(name, Text(text))
    if options:
        table.add_row("", Text(options, style="dim"))
