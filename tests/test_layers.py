"""Inside the package nothing goes round, through its root or otherwise.

`make lint` checks the order of the rooms.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gradaccord

ROOT = Path(gradaccord.__file__).parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
POSIX = {"fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog"}


@pytest.mark.parametrize("module", [m for m in MODULES if m != "__init__.py"])
def test_no_module_imports_the_root(module: str) -> None:
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert "gradaccord" not in [name.name for name in node.names], f"line {node.lineno}"
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write imports in full"
            assert node.module != "gradaccord", f"line {node.lineno}"


def imported(module: str) -> set[str]:
    """The modules that one imports anywhere: at its top, inside a function, or for types alone."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {
                file_of(f"{node.module}.{name.name}") or file_of(node.module) for name in node.names
            }
        if isinstance(node, ast.Import):
            found |= {file_of(name.name) for name in node.names}
    return {other for other in found if other and other != module}


def file_of(name: str | None) -> str | None:
    path = str(name).partition(".")[2].replace(".", "/") if str(name).startswith("gradaccord.") else ""
    return next((f for f in (f"{path}.py", f"{path}/__init__.py") if path and f in MODULES), None)


def test_no_modules_import_each_other() -> None:
    try:
        TopologicalSorter({module: imported(module) for module in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.parametrize("module", MODULES)
def test_no_module_needs_a_posix_system(module: str) -> None:
    """What Windows lacks is imported where it is used, after the system was asked for."""
    inside: set[int] = set()
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside |= {id(below) for below in ast.walk(node)}
    for node in ast.walk(tree):
        names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        assert id(node) in inside or not POSIX & set(names), f"line {node.lineno}"  # type: ignore[attr-defined]


def test_every_public_name_is_there() -> None:
    for name in dir(gradaccord):
        assert getattr(gradaccord, name) is not None
    for room in ("data", "meta", "integrations"):
        for name in getattr(gradaccord, room).__all__:
            assert getattr(getattr(gradaccord, room), name) is not None
