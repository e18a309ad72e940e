"""What the README and the docs show runs as it stands, and what they name exists."""

from __future__ import annotations

import re
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch
from toy import batch, loss_of, trunk

import gradaccord

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"])
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_readme_has_its_examples():
    assert len(BLOCKS) == 5
    assert len(BLOCKS[0].strip().splitlines()) == 5  # five lines, as its heading says


@pytest.mark.parametrize("code", BLOCKS)
def test_the_readmes_examples_run(code, capsys):
    model = trunk()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    before = [p.detach().clone() for p in model.parameters()]

    def single(model, batch_):
        return loss_of(model, "a", *batch_)

    names = {
        "gradaccord": gradaccord,
        "partial": partial,
        "model": model,
        "optimizer": optimizer,
        "stream": [("abc"[i % 3], batch(i)) for i in range(5)],
    }
    if "meta.MAML" in code:
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        before = [p.detach().clone() for p in model.parameters()]
        inputs, labels = torch.randn(60, 4), torch.arange(60) % 3
        episodes = gradaccord.meta.Episodes((inputs, labels), ways=3, shots=2, queries=4)
        names |= {"torch": torch, "model": model, "episodes": islice(episodes, 3)}
    elif "t, b in batches" in code:
        names |= {"loader": [{t: batch(3 * i + j) for j, t in enumerate("abc")} for i in range(3)]}
        names |= {"loss_fn": lambda m, t, b: loss_of(m, t, *b)}
    elif "DotProd" in code:
        names |= {"loader": [batch(i) for i in range(6)], "loss_fn": single}
    elif "SMART" in code:
        names |= {
            "method": gradaccord.PCGrad(model),
            "forward": lambda m, t, b: m(b[0], t),
            "loss_of": lambda b, outputs: torch.nn.functional.cross_entropy(outputs, b[1]),
        }
    else:
        names |= {"loss_fn": lambda m, t, b: loss_of(m, t, *b)}
    exec(code, names)
    assert any(not torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_the_few_shot_example_runs():
    pytest.importorskip("matplotlib")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "fewshot.md").read_text(), re.DOTALL)
    few = code.replace("tasks=4):", "tasks=4):\n    if learner.iteration >= 2: break")
    names = {}
    exec(few, names)
    assert 0 <= names["report"].query_accuracy <= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_public_method_is_in_the_readme():
    table = (ROOT / "README.md").read_text()
    for name in gradaccord.__all__:
        if name not in ("Method", "StepReport", "Engine", "__version__"):
            assert f"`{name}`" in table, name
