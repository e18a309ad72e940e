"""The public names, and how little importing them takes."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import gradaccord


def test_importing_the_package_imports_torch_at_most():
    code = (
        "import sys, gradaccord; [getattr(gradaccord, n) for n in gradaccord.__all__];"
        "heavy = {'transformers', 'matplotlib', 'typer', 'rich', 'accelerate', 'torchjd', 'numpy.f2py',"
        "'babel', 'sklearn', 'torch.distributed.tensor', 'lightning_fabric'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("room", ["", ".data", ".integrations", ".meta", ".tasks"])
def test_type_checkers_find_the_names_where_they_live(room):
    module = import_module(f"gradaccord{room}")
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if ast.unparse(node).startswith("if TYPE_CHECKING"))
    imports = [node for node in ast.walk(block) if isinstance(node, ast.ImportFrom)]
    found = {name.asname: node.module for node in imports for name in node.names}
    inside = module.__name__ + "."  # which the table may leave out
    assert found == {
        name: home if home.startswith("gradaccord.") else inside + home
        for name, home in module._HOMES.items()
    }


def test_public_names_are_listed_once_and_found():
    for name in gradaccord.__all__:
        assert getattr(gradaccord, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'PCgrad'"):
        gradaccord.PCgrad  # noqa: B018


def test_type_checkers_find_each_name_where_it_is_imported_from():
    """A name without a line there works, and is of any type to a type checker."""
    tree = ast.parse(Path(gradaccord.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    homes = {line.names[0].name: line.module for line in block.body}
    assert homes.items() <= gradaccord._HOMES.items()
    assert {"PCGrad", "SMART", "Method"} <= homes.keys()
