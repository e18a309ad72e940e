"""`docs/corrections.md`: every block of code holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "corrections.md").read_text(encoding="utf-8")
BLOCKS = {
    section.splitlines()[0]: re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for section in PAGE.split("\n## ")[1:]
}


@pytest.mark.parametrize("title", BLOCKS)
def test_the_code_of_a_correction_holds(title):
    assert BLOCKS[title]
    for block in BLOCKS[title]:
        assert "assert" in block
        exec(compile(block, title, "exec"), {})
