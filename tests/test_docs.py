"""What the README and the docs show runs as it stands, and what they name exists."""

from __future__ import annotations

import re
import shlex
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch
import yaml
from toy import batch, loss_of, trunk

import gradaccord

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"])
DIFFS = re.findall(r"```diff\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_readme_has_its_examples():
    assert len(DIFFS) == 2
    assert len(BLOCKS) == 4


def side(diff, sign):
    """The program before (-) or after (+) a diff."""
    lines = [line for line in diff.splitlines() if line[:1] in (" ", sign)]
    assert {line[:1] for line in diff.splitlines()} == {" ", "-", "+"}
    return "\n".join(line[1:] for line in lines)


def test_both_sides_of_the_readmes_loop_run(capsys):
    ends = {}
    for sign in "-+":
        model = trunk()
        names = {
            "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
            "loader": [{t: batch(3 * i + j) for j, t in enumerate("abc")} for i in range(3)],
            "loss_fn": lambda m, t, b: loss_of(m, t, *b),
        }  # fmt: skip
        exec(side(DIFFS[0], sign), names)
        ends[sign] = torch.cat([p.detach().flatten() for p in model.parameters()])
    start = torch.cat([p.detach().flatten() for p in trunk().parameters()])
    assert capsys.readouterr().out.count("mean_cosine") == 3
    assert not torch.equal(ends["-"], start)
    assert not torch.equal(ends["+"], ends["-"])


@pytest.mark.usefixtures("one_thread")
def test_both_sides_of_the_readmes_trainer_run(tmp_path):
    pytest.importorskip("transformers")
    from trainer_toy import arguments, bert, moved, sentences, weights

    for sign in "-+":
        model = bert()
        before = weights(model)
        names = {
            "model": model, "args": arguments(tmp_path, max_steps=2),
            **{name: sentences(8, i) for i, name in enumerate(("sst", "imdb", "sst_dev", "imdb_dev"))},
        }  # fmt: skip
        exec(side(DIFFS[1], sign), names)
        assert moved(weights(model), before)
    assert names["trainer"].report.tasks == ("sst", "imdb")


def test_the_readmes_measurements_are_those_of_the_benchmarks():
    """Every number of the section beside other libraries stands in a row of benchmarks/README.md."""
    section = (ROOT / "README.md").read_text().partition("## Beside TorchJD")[2].partition("\n## ")[0]
    rows = (ROOT / "benchmarks" / "README.md").read_text()
    cells = re.findall(r"([\d.]+) × / (\d+) MB", section)
    assert len(cells) == 12
    for time, memory in cells:
        assert f"| {time} | {memory} |" in rows
    for number in re.findall(r"(?<![\d.x-])\d\.\d\d(?!\d)", section):
        assert f"| {number} |" in rows, number


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


@pytest.mark.parametrize("page", sorted({*PAGES, *ROOT.glob("*.md")}), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    words = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", words):
        assert (page.parent / target).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", (page.parent / target).read_text(), re.MULTILINE)
            named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in named, f"{target}#{anchor}"


def shown(start):
    """Every command in the pages that begins so, in blocks and in running text, without its comment."""
    found = []
    for page in PAGES:
        text = page.read_text()
        inline = re.findall(r"`([^`\n]+)`", text)
        lines = [
            line
            for block in re.findall(r"```console\n(.*?)```", text, re.S)
            for line in block.splitlines()
        ]
        parts = (part.strip() for line in [*lines, *inline] for part in re.split(r"&&|#|[<>|] ", line))
        found += [part for part in parts if part.startswith(start)]
    assert found
    return sorted(set(found))


@pytest.mark.parametrize("command", shown("gradaccord "))
def test_commands_in_the_docs_exist_with_their_options(command):
    from typer.main import get_command

    from gradaccord.cli.app import app

    known, arguments = get_command(app), shlex.split(command)[1:]
    while hasattr(known, "commands") and not arguments[0].startswith("-"):  # fewshot train
        known, arguments = known.commands[arguments[0]], arguments[1:]
    options = {option for parameter in known.params for option in parameter.opts}
    used = {argument for argument in arguments if argument.startswith("--")}
    assert used <= {*options, "--help"}


@pytest.mark.parametrize("command", shown("python benchmarks/"))
def test_commands_that_reproduce_numbers_exist_with_their_options(command):
    _, script, *arguments = shlex.split(command)
    text = (ROOT / script).read_text()
    assert all(f'"{argument}"' in text for argument in arguments if argument.startswith("--"))


@pytest.mark.parametrize("command", shown("pytest "))
def test_tests_that_the_docs_name_exist(command):
    _, file, *options = shlex.split(command)
    word = options[-1] if options else ""
    assert re.search(rf"def test_\w*{word}", (ROOT / file).read_text())


def test_the_configuration_in_the_docs_is_valid():
    from gradaccord.train.config_file import check_config

    texts = [(ROOT / page).read_text() for page in ("README.md", "docs/training.md")]
    for block in re.findall(r"```yaml\n(.*?)```", "".join(texts), re.DOTALL):
        config = check_config(yaml.safe_load(block.replace("5e-5", "5.0e-5")))
        if "unseen" in config.tasks:
            assert config.tasks["unseen"].source == "nli"


def test_the_versions_in_the_readme_are_those_of_the_package():
    readme, project = (ROOT / "README.md").read_text(), (ROOT / "pyproject.toml").read_text()
    least = re.search(r'"torch>=([\d.]+)"', project)[1]
    pinned = re.search(r"^torch==(\d+\.\d+)", (ROOT / "constraints.txt").read_text(), re.M)[1]
    assert f"torch {least} or newer (tested with {pinned})" in readme
    assert f"Python {re.search(r'requires-python = .>=([0-9.]+)', project)[1]} or newer" in readme
    extras = re.findall(r"^(\w+) = \[", project.partition("[project.optional-dependencies]")[2], re.M)
    for extra in re.findall(r"'\.\[(\w+)\]'", readme):
        assert extra in extras


def test_every_public_method_is_in_the_readme():
    table = (ROOT / "README.md").read_text()
    for name in gradaccord.__all__:
        if name not in ("Method", "StepReport", "Engine", "__version__"):
            assert f"`{name}`" in table, name
