"""The notebooks of examples/notebooks, made from the scripts of examples: `make notebooks`.

The docstring of a script and every line `# %% words` become text; what stands between them is code.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def scripts() -> list[Path]:
    return sorted(EXAMPLES.glob("*.py"))


def target(script: Path) -> Path:
    return EXAMPLES / "notebooks" / f"{script.stem}.ipynb"


def notebook(script: Path) -> str:
    """The text of the notebook of a script."""
    source = script.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    title, _, rest = docstring.partition("\n\n")
    code = re.sub(r'\A""".*?"""\n', "", source, flags=re.DOTALL)
    first, *others = re.split(r"^# %% (.+)\n", code, flags=re.MULTILINE)
    cells = [_cell("markdown", f"# {title}\n\n{rest}"), _cell("code", first)]
    for words, own in zip(others[::2], others[1::2], strict=True):
        cells += [_cell("markdown", words), _cell("code", own)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _cell(kind: str, text: str) -> dict[str, object]:
    text = re.sub(r"  # (noqa|fmt): .*", "", text.strip("\n"))
    cell: dict[str, object] = {
        "cell_type": kind,
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


if __name__ == "__main__":
    (EXAMPLES / "notebooks").mkdir(exist_ok=True)
    for script in scripts():
        target(script).write_text(notebook(script), encoding="utf-8")
