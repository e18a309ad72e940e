"""The tree in ARCHITECTURE.md, made of the modules' docstrings. `make architecture` writes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gradaccord"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- tree: make architecture -->\n```text\n", "```\n<!-- end of tree -->"
# From high to low: a room imports only rooms after it.
ROOMS = (
    *("cli", "reproduce", "showcase", "integrations", "report", "compare", "train", "pretrain", "meta"),
    *("runs", "probe", "tasks", "models", "data", "methods", "core", "recipes"),
)
WIDTH = 28  # column of the phrases, counted from the indentation


def phrase(path: Path) -> str:
    """The first line of a module's docstring, or of a recipe's comment."""
    text = path.read_text(encoding="utf-8")
    text = text.lstrip("# ") if path.suffix == ".yaml" else ast.get_docstring(ast.parse(text)) or ""
    return text.partition("\n")[0].removesuffix(".")


def lines(folder: Path, depth: int) -> Iterator[str]:
    """A folder's files, then the folders inside, each with its phrase."""
    indent = "  " * depth
    for path in sorted([*folder.glob("*.py"), *folder.glob("*.yaml")]):
        if path.name != "__init__.py":
            yield f"{indent}{path.name:<{WIDTH}}{phrase(path)}"
    for inside in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from _room(inside, depth)


def _room(folder: Path, depth: int) -> Iterator[str]:
    yield f"{'  ' * depth}{folder.name + '/':<{WIDTH}}{phrase(folder / '__init__.py')}"
    yield from lines(folder, depth + 1)


def tree() -> str:
    """The whole package, rooms from high to low."""
    found = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert found <= {*ROOMS}, f"unknown rooms: {found - {*ROOMS}}"
    parts = ["src/gradaccord/"]
    for path in sorted(SOURCE.glob("*.py")):
        parts.append(f"  {path.name:<{WIDTH}}{phrase(path)}")
    for room in ROOMS:
        if room in found:
            parts += ["", *_room(SOURCE / room, 1)]
    return "\n".join(parts) + "\n"


def page_with_tree(page: str) -> str:
    """The page with the tree as it is now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + tree() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page_with_tree(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
