"""The tutorials of docs/tutorials: their blocks, and the script of examples/ that each is about."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every block of a page."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [(language, text) for language, text in found]


def example_of(page: Path) -> Path | None:
    """The script that a page names first."""
    named = re.search(r"\(\.\./\.\./(examples/\w+\.py)\)", page.read_text("utf-8"))
    return ROOT / named[1] if named else None


def shown_output(example: str) -> list[str]:
    """What the tutorial of an example shows as its output: its blocks of text."""
    pages = [page for page in PAGES if (script := example_of(page)) and script.stem == example]
    return [text for page in pages for language, text in blocks(page) if language == "text"]


def without_numbers(text: str) -> str:
    """Words and their order: numbers differ a little between machines, and columns with them."""
    return " ".join(re.sub(r"-?\d[\d.:,e-]*", "#", text).split())


def part_of(text: str, source: str) -> bool:
    """Whether the lines stand in the source, at any indentation and without notes to formatters."""
    wanted = textwrap.dedent(text).strip("\n").splitlines()
    lines = re.sub(r"  # (noqa|fmt): .*", "", source).splitlines()
    return any(
        textwrap.dedent("\n".join(lines[start : start + len(wanted)])).splitlines() == wanted
        for start in range(len(lines))
    )
