"""The command line, as its own help has it: every command with its arguments and options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from gradaccord.cli.app import app


def command_line(_: str) -> str:
    """All commands, one section each."""
    return "\n".join(_sections(get_command(app), "gradaccord"))


def _sections(command: Any, name: str) -> Iterator[str]:
    inside = getattr(command, "commands", {})
    if name != "gradaccord" and not (inside and not command.help):
        yield f"## `{name}`\n\n{_plain(command.help or '')}\n"
        yield from _options(command)
    for word, sub in inside.items():
        if not sub.hidden:
            yield from _sections(sub, f"{name} {word}")


def _options(command: Any) -> Iterator[str]:
    rows = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        options = [name for name in parameter.opts if name.startswith("-")]
        shown = ", ".join(f"`{name}`" for name in options or [parameter.name.upper()])
        meaning = _plain(getattr(parameter, "help", "") or "").replace("|", "\\|")
        rows.append(f"| {shown} | {meaning} |")
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _plain(text: str) -> str:
    """Help without the marks of the terminal: examples become code."""
    text = re.sub(r"^\[bold\](.+?)\[/bold\]$", r"    \1", text, flags=re.M)
    text = re.sub(r"\[bold\](.+?)\[/bold\]", r"`\1`", text)
    return re.sub(r"\[/?(?:dim|bold|italic)\]", "", text)
