"""The code of the site's own pages runs as it stands, and their commands are parsed."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from doc_pages import DOCS, PAGES, ROOT, blocks, name_of, run_page

from gradaccord.methods.registry import ADDITIONS, METHODS
from gradaccord.tasks.registry import KINDS

pytestmark = pytest.mark.usefixtures("one_thread")

# Pages whose code other tests run; a folder stands for all its pages.
ELSEWHERE = {
    "README.md": "tests/test_docs.py",
    "CONTRIBUTING.md": "tests/methods/test_registry.py",
    "docs/corrections.md": "tests/test_corrections.py",
    "docs/fewshot.md": "tests/test_docs.py",
    "docs/integrations.md": "tests/integrations/test_trainer_docs.py",
    "docs/tutorials/": "tests/docs/test_tutorials.py",
    "docs/coming-from/": "tests/docs/test_coming_from.py",
}
SECTIONS = (
    *("When to use it", "Update", "Cost", "Options", "Pitfalls", "What we measured"),
)  # of a page on a method or a learner


def elsewhere(page):
    return next((file for start, file in ELSEWHERE.items() if name_of(page).startswith(start)), None)


RUN = [page for page in PAGES if blocks(page, "python") and elsewhere(page) is None]
PROGRAMS = ("cd ", "echo ", "torchrun ", "accelerate launch ", "tensorboard ", "mkdir ", "jupyter ")


def start_names(page):
    """What pages that continue the first example take for granted: its names."""
    names, folder = {}, page.parent.name
    first = DOCS / ("learners/index.md" if folder == "learners" else "start.md")
    if page != first and folder != "tasks":
        blocks(first, "python")[0].run(names)
    return names


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_code_of_a_page_runs(page, tmp_path, capsys):
    pytest.importorskip("torchjd")
    names = run_page(page, tmp_path, start_names(page))
    if page.parent.name == "methods" and page.stem in METHODS:
        assert isinstance(names["method"], METHODS[page.stem].load())
    if page.parent.name == "methods" and page.stem in ADDITIONS:
        wanted = ADDITIONS[page.stem].load()
        assert any(isinstance(value, wanted) for value in names.values())
    if page.parent.name == "learners":
        assert names["learner"].iteration >= 2 or page.stem == "dotprod"
        assert names["report"].finite
    if page.parent.name == "tasks" and "found" in names:
        assert names["found"].kind == names["task"].kind == page.stem
        if page.stem != "masked_lm":
            examples = names["examples"]
            scores = names["task"].score(examples, [names["task"].gold(one) for one in examples])
            assert scores[names["task"].metric] == pytest.approx(100)


def test_code_that_is_run_elsewhere_is():
    for start, file in ELSEWHERE.items():
        pages = [page for page in PAGES if name_of(page).startswith(start) and blocks(page, "python")]
        assert not pages or (ROOT / file).exists(), file


def test_every_method_and_kind_has_its_page():
    assert {page.stem for page in (DOCS / "methods").glob("*.md")} == {
        *METHODS,
        *ADDITIONS,
        "stl",
        "index",
    }
    assert {page.stem for page in (DOCS / "tasks").glob("*.md")} == {*KINDS, "index"}


def test_every_few_shot_learner_has_its_page():
    from gradaccord import meta
    from gradaccord.meta.algorithms import ALGORITHMS

    pages = [page for page in (DOCS / "learners").glob("*.md") if page.stem != "index"]
    text = "".join(page.read_text("utf-8") for page in pages)
    for algorithm in ALGORITHMS:
        assert f"--algorithm {algorithm}" in text
    learners = [getattr(meta, name) for name in meta.__all__ if name[0].isupper()]
    learners = [one for one in learners if issubclass(one, meta.MetaLearner)]
    for learner in learners:
        assert learner is meta.MetaLearner or f"gradaccord.meta.{learner.__name__}(" in text


@pytest.mark.parametrize(
    "page",
    sorted([*(DOCS / "methods").glob("[!i]*.md"), *(DOCS / "learners").glob("[!i]*.md")]),
    ids=lambda page: f"{page.parent.name}-{page.stem}",
)
def test_the_page_of_a_method_or_a_learner_is_whole(page):
    text, folder = page.read_text("utf-8"), page.parent.name
    assert re.findall(r"^## (.+)$", text, re.M) == [*SECTIONS]
    picture = DOCS / "figures" / folder / f"{page.stem}.svg"
    assert f"](../figures/{folder}/{picture.name})" in text
    assert picture.stat().st_size < 40_000
    assert blocks(page, "python")


@pytest.mark.parametrize(
    "block",
    [b for page in PAGES for b in blocks(page, "yaml") if "tutorials" not in page.parts],
    ids=lambda block: f"{block.page.stem}-{block.line}",
)
def test_configurations_are_valid(block):
    pytest.importorskip("sklearn")
    from gradaccord.pretrain.config import PretrainConfig
    from gradaccord.train.config_file import check_config

    content = yaml.safe_load(block.text.replace("5e-5", "5.0e-5"))
    if block.page.stem == "pretraining":
        assert PretrainConfig.model_validate(content).texts
    else:
        assert check_config(content).tasks


def lines():
    """Every line of the pages' console blocks, without its comment."""
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in block.text.replace("\\\n", " ").splitlines():
                for part in re.split(r"&&|[<>|] ", re.split(r"(?:^|\s)#", line)[0]):
                    if part.strip():
                        yield part.strip()


@pytest.mark.parametrize("command", sorted(set(lines())))
def test_commands_are_parsed_by_the_real_command_line(command):
    if command.startswith(PROGRAMS):
        return
    program, *arguments = shlex.split(command)
    if program == "gradaccord":
        parse(arguments)
    elif program == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
        assert {word for word in arguments if "=" not in word} <= {*targets}
    elif program == "pip":
        project = (ROOT / "pyproject.toml").read_text()
        known = re.findall(
            r"^(\w+) = \[", project.partition("[project.optional-dependencies]")[2], re.M
        )
        asked = re.search(r"\[([\w,]+)\]", command)
        assert arguments[0] == "install"
        assert {*(asked[1].split(",") if asked else ())} <= {*known}
    elif program == "pytest":
        assert (ROOT / arguments[0].partition("::")[0]).exists()
    else:
        assert program == "python", f"{program}: what is it, and how is the command checked?"
        script = next(word for word in arguments if word.endswith(".py"))
        assert (ROOT / script).exists() or "/" not in script


def parse(arguments):
    """Let the command's own parser read the options; nothing is run."""
    from typer.main import get_command

    from gradaccord.cli.app import app

    known = get_command(app)
    context = known.context_class(known, info_name="gradaccord")
    while hasattr(known, "commands") and arguments and not arguments[0].startswith("-"):
        known, arguments = known.commands[arguments[0]], arguments[1:]
        context = known.context_class(known, parent=context)
    given, *_ = known.make_parser(context).parse_args(args=list(arguments))
    if "methods" in given:
        from gradaccord.compare.specs import parse_methods

        assert parse_methods(given["methods"])


def test_an_unknown_option_is_refused():
    with pytest.raises(Exception, match="--seedz"):
        parse(["compare", "trio.yaml", "--seedz", "3"])
