"""Parts that the pages of methods and of few-shot learners share: an update, options, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter
from typing import Any

from docstrings import parts_of


def update_of(cls: Any) -> str:
    """What the class does: the first paragraph of its docstring, the update, and the notes."""
    found = parts_of(cls)
    block = f"```text\n{found.update}\n```\n\n" if found.update else ""
    return f"{found.lead}\n\n{block}{found.notes}"


def options_table(cls: Any, options: Mapping[str, Parameter]) -> str:
    """Every option with its default and meaning."""
    about = parts_of(cls).options
    rows = [
        (f"`{option}`", _default(parameter), about.get(option, ""))
        for option, parameter in options.items()
    ]
    return table(("Option", "Default", "Meaning"), rows) if rows else "It has no options."


def _default(parameter: Parameter) -> str:
    default = parameter.default
    if default is Parameter.empty:
        return ""
    return f"`{default.__name__ if callable(default) else repr(default)}`"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    cells = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in cells)
