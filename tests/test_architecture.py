"""ARCHITECTURE.md shows the package as it is: every file in its tree, and walks through real names."""

from __future__ import annotations

import re

import pytest
from architecture import PAGE, SOURCE, page_with_tree, phrase

TEXT = PAGE.read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?!tests/)\w+/[\w/]+\.py)(?::(\w+))?`", TEXT)))


def test_the_tree_is_up_to_date() -> None:
    assert page_with_tree(TEXT) == TEXT, "run `make architecture`"


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in SOURCE.rglob("*.py") if not phrase(path)]
    assert not silent


@pytest.mark.parametrize(("file", "name"), NAMED, ids=str)
def test_what_the_walks_name_exists(file: str, name: str) -> None:
    text = (SOURCE / file).read_text(encoding="utf-8")
    assert not name or re.search(rf"(?:def|class) {name}\b", text)
