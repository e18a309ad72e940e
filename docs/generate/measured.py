"""What was measured of a method: its rows in the tables of recorded results and of benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gradaccord.methods.registry import ADDITIONS, METHODS

ROOT = Path(__file__).parents[2]
# How the tables call a method, beside its name and its class.
ALIASES = {
    "sum": ("MTL", "plain sum"),
    "sequential": ("Sequential, η = 1",),
    "paired_sum": ("Paired sum",),
    "sequential_reptile": ("Sequential Reptile",),
    "multitask_reptile": ("Reptile",),  # in the landscape, which has three tasks
    "loss_scale": ("Loss scale",),
}
# The sections of the benchmarks that are about methods; those on few-shot learners are not.
BENCHMARKS = ("combine.py", "align.py", "trajectory.py", "regularize.py")


def measured(name: str) -> str:
    """The rows that are about the method, or that there are none."""
    found = [*_results(name), *_benchmarks(name)]
    return "\n\n".join(found) or "Not measured yet."


def _labels(name: str) -> set[str]:
    named = METHODS.get(name) or ADDITIONS.get(name)
    own = {name, *ALIASES.get(name, ())}
    shared = named and sum(other.home == named.home for other in METHODS.values()) > 1
    if named and not (shared and name in ("sequential", "sequential_averaged")):
        own.add(named.class_name)
    return own


def _is_about(cell: str, labels: set[str]) -> bool:
    """Whether a cell names the method, perhaps with a setting: "DotProd, exact"."""
    plain = cell.removeprefix("gradaccord ").strip("* ")
    setting = "(, | on | while | after )"
    return any(plain == label or re.match(re.escape(label) + setting, plain) for label in labels)


def _tables(text: str) -> Iterator[list[list[str]]]:
    """Every table of a text, as rows of cells; the second row is the rule."""
    for table in re.findall(r"^\|.*\|$(?:\n^\|.*\|$)+", text, re.M):
        yield [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def _shown(rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _results(name: str) -> Iterator[str]:
    """Entries of `docs/results.md` whose table of scores has a row of the method."""
    labels = _labels(name)
    text = (ROOT / "docs" / "results.md").read_text("utf-8").partition("## Without runs")[0]
    for entry, section in re.findall(r"^### (\S+)\n(.*?)(?=^##)", text, re.M | re.S):
        table = next(_tables(section), None)
        if table is None:
            continue
        landscape = any(row[0] == "MTL" for row in table)
        wanted = labels if landscape else labels - set(ALIASES.get(name, ()))
        # In the landscape "Reptile" has one trajectory a task; elsewhere the tasks of "sequential" take
        # turns by epochs, which is another sampler and not the method.
        if (name == "reptile" and landscape) or (name == "sequential" and not landscape):
            continue
        if not any(_is_about(row[0], wanted) for row in table[2:]):
            continue
        rows = [row for row in table[2:] if _is_about(row[0], wanted | {"MTL"}) or not landscape]
        status = re.search(r"^Status: (.*?)[.:]", section, re.M)
        title = re.search(r"^\*\*(.+?)\*\*", section, re.M)
        runs = re.search(r"^(`gradaccord reproduce [^`]+`)", section, re.M)
        link = f"[{entry}](../results.md#{entry})"
        yield f"**{title[1]}** {link}, {status[1]}, {runs[1]}:\n\n{_shown([*table[:2], *rows])}"


def _benchmarks(name: str) -> Iterator[str]:
    """Rows of the method beside the floor, with the command that measured them."""
    labels = _labels(name) - ({"Reptile"} if name == "multitask_reptile" else set())
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    for heading, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S):
        if not heading.endswith(tuple(f"(`{script}`)" for script in BENCHMARKS)):
            continue
        tables = [_about(table, labels) for table in _tables(section)]
        found = [_shown(table) for table in tables if table]
        prose = (part.replace("\n", " ") for part in section.split("\n\n") if part[:1].isalpha())
        found += [
            part for part in prose if "`python " in part and labels & set(re.findall(r"\w+", part))
        ]
        if found:
            command = re.search(r"^\d{4}.*`(python benchmarks/[^`]+)`", section, re.M)
            title = heading.partition(" (`")[0]
            parts = "\n\n".join(found)
            link = "[speed and memory](../../benchmarks/README.md)"
            yield f"**{title}**, {link}, `{command[1]}`:\n\n{parts}"


def _about(table: list[list[str]], labels: set[str]) -> list[list[str]]:
    """The rows of the method and of the floor, in their order; none if there are none of the method."""
    about = [row for row in table[2:] if any(_is_about(cell, labels) for cell in row[:3])]
    floors = [row for row in table[2:] if any("(floor)" in cell for cell in row)]
    rows = [row for row in table[2:] if row in about or row in floors]
    return [*table[:2], *rows] if about else []
