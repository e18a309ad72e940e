"""The command line: fast help, and a version."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer.models import CommandInfo

import gradaccord
from gradaccord.cli.app import app, main
from gradaccord.cli.fewshot import app as fewshot


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradaccord", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"gradaccord {gradaccord.__version__}\n"


COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


FEWSHOT = [f"fewshot {c.name or c.callback.__name__}" for c in fewshot.registered_commands]
EXAMPLE = {"": "gradaccord demo ", "fewshot": "gradaccord fewshot train "}


@pytest.mark.parametrize("command", ["", *COMMANDS, "fewshot", *FEWSHOT])
def test_help_shows_an_example_and_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as exit_:
        main([*command.split(), "--help"])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    assert f"\n {EXAMPLE.get(command, f'gradaccord {command} ')}" in shown
    assert "…" not in shown  # no name is cut,
    assert not re.search(r"<[\w|]+(?:  |$)", shown, re.MULTILINE)  # nor broken
    assert max(map(len, shown.splitlines())) <= 80


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)


@pytest.mark.parametrize(
    "command",
    [*app.registered_commands, *fewshot.registered_commands],
    ids=[*COMMANDS, *FEWSHOT],
)
def test_help_is_not_broken_within_a_sentence_at_80_columns(command: CommandInfo) -> None:
    """Below the first paragraph lines are shown as they stand: longer ones would be broken twice."""
    shown = command.callback.__doc__.replace("[bold]", "").replace("[/bold]", "")
    assert max(len(line.strip()) for line in shown.splitlines()[1:]) <= 78


def test_help_takes_less_than_half_a_second_of_processor_time() -> None:
    resource = pytest.importorskip("resource")
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "demo" in run("--help").stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(seconds) < 0.5  # about 0.3; what else runs on the cores only adds to it


@pytest.mark.parametrize(
    "start_", ["import gradaccord", "gradaccord --help", "gradaccord train --help"]
)
def test_nothing_heavy_is_imported_before_it_is_needed(start_: str) -> None:
    if start_.startswith("import"):
        code = start_
    else:
        arguments = start_.split()[1:]
        code = (
            "from gradaccord.cli.app import main\n"
            f"try: main({arguments!r})\n"
            "except SystemExit as end: assert end.code == 0"
        )
    heavy = ("torch", "transformers", "matplotlib", "numpy", "scipy", "yaml", "sklearn", "optuna")
    code += f"\nimport sys; found = [m for m in {heavy!r} if m in sys.modules]; assert not found, found"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
