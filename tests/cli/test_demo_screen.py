"""What the demo shows: a table of 80 columns, and commands that exist."""

from __future__ import annotations

import io

from demo_toy import CONTROL, METHOD, names
from rich.console import Console

from gradaccord.cli.app import app
from gradaccord.cli.demo_screen import HEADINGS, NEXT, NOTES, methods_table
from gradaccord.compare.specs import parse_methods


def test_the_table_fits_eighty_columns() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(methods_table(names({"sum": [60, 61], CONTROL: [60, 61.5], METHOD: [60, 62]})))
    text = console.export_text()
    assert "60.5" in text
    assert "(c)" in text
    assert "…" not in text
    assert all(line in text for heading in HEADINGS for line in heading.split("\n"))
    assert max(map(len, NOTES.splitlines())) <= 80


def test_the_next_commands_exist_and_name_methods_that_do() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert {command.split()[1] for command in NEXT} <= known
    methods = NEXT[-1].split("--methods ")[1].split()[0]
    assert [spec.method for spec in parse_methods(methods)] == methods.split(",")
