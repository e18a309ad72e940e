"""The code on the tutorials' pages runs: it is part of a script that is run, or is run here."""

from __future__ import annotations

import re
import shlex
import sys
from functools import partial

import pytest
import torch
from toy import batch, loss_of, trunk
from tutorials import PAGES, ROOT, blocks, example_of, part_of

WITH_EXAMPLE = [page for page in PAGES if example_of(page)]
RUN_ELSEWHERE = ("pip install ", "python examples/", "torchrun ")


def test_all_pages_are_here_and_in_the_index():
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert {page.name for page in PAGES} == {"index.md", *re.findall(r"\((\S+\.md)\)", index)}
    assert {example_of(page) for page in WITH_EXAMPLE} == set((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("page", WITH_EXAMPLE, ids=lambda page: page.stem)
def test_code_is_part_of_the_script(page):
    source = example_of(page).read_text()
    for language, text in blocks(page):
        assert language in ("python", "yaml", "console", "text"), language
        if language in ("python", "yaml"):
            assert part_of(text, source), text


@pytest.mark.parametrize("page", WITH_EXAMPLE, ids=lambda page: page.stem)
def test_commands_are_run_by_the_script_or_the_tests(page):
    example = example_of(page)
    for command in (
        line for kind, text in blocks(page) if kind == "console" for line in text.splitlines()
    ):
        if command.startswith(RUN_ELSEWHERE):
            words = shlex.split(command)
            assert "install" in words or f"examples/{example.name}" in words, command
        else:
            assert f"\n{command}\n" in example.read_text(), command


@pytest.mark.parametrize("page", WITH_EXAMPLE, ids=lambda page: page.stem)
def test_what_a_page_installs_is_what_its_script_needs(page):
    wanted = re.search(r"`(pip install .+?)`", example_of(page).read_text())[1]
    shown = [text for kind, text in blocks(page) if kind == "console" and "pip install" in text]
    assert all(text.startswith(f"{wanted}\n") for text in shown)


def test_a_method_of_ones_own_project(tmp_path, monkeypatch):
    """The class is that of CONTRIBUTING.md, in a file beside the user's own."""
    code = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)[0]
    (tmp_path / "equal_norms.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    model = trunk()
    before = [p.detach().clone() for p in model.parameters()]
    names = {
        "partial": partial, "model": model, "loss_fn": lambda m, t, b: loss_of(m, t, *b),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=0.01),
        "loader": [{t: batch(3 * i + j) for j, t in enumerate("abc")} for i in range(3)],
    }  # fmt: skip
    ((_, block),) = [one for one in blocks(ROOT / "docs/tutorials/own-method.md") if one[0] == "python"]
    exec(block, names)
    sys.modules.pop("equal_norms")
    norms = names["report"].norms
    torch.testing.assert_close(names["report"].weights * norms, norms.mean().expand(3))
    assert any(not torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
