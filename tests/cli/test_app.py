"""The command line: fast help, one-sentence errors, and a version."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from typer.models import CommandInfo

import gradaccord
from gradaccord.cli.app import app, main
from gradaccord.cli.fewshot import app as fewshot
from gradaccord.data.text import cldr


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradaccord", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr; the exit code must be 2, and stdout empty."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("gradaccord: ")
    assert said.err.count("\n") == 1
    return said.err


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
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "demo" in run("--help").stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert statistics.median(seconds) < 0.5  # about 0.25


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--methods", "pgrad"], "pcgrad"),
        (["demo", "--seeds", "0"], "Invalid value for '--seeds'"),
        (["demo", "--gradients", "many"], "Invalid value for '--gradients'"),
        (["demo", "--colour"], "No such option: --colour"),
        (["dmeo"], "No such command 'dmeo'"),
    ],
)
def test_a_mistake_gets_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert sentence in complaint(capsys, *arguments)


def test_an_impossible_folder_is_found_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert "file" in complaint(capsys, "demo", "--out", str(tmp_path / "file" / "results"))


def test_a_missing_package_is_named_with_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cldr.names.cache_clear()
    monkeypatch.setitem(sys.modules, "babel", None)
    assert "pip install 'gradaccord[demo]'" in complaint(capsys, "demo")


WITH_OUT = [
    ["train", "cldr"], ["compare", "cldr"], ["sweep", "cldr", "train.lr=1e-4,1e-3"], ["landscape"],
    ["demo"],
    ["reproduce", "minbert-table-2", "--small"], ["fewshot", "train"], ["fewshot", "figures", "runs"],
    ["fewshot", "record", "runs"], ["export", "runs"], ["report", "runs"], ["init", "classification"],
    ["predict", "runs", "a text"],
]  # fmt: skip


@pytest.mark.parametrize("command", WITH_OUT, ids=" ".join)
def test_an_empty_name_or_one_that_is_not_utf_8_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    said = "The option --out is empty: give it a value, or leave it out."
    assert said in complaint(capsys, *command, "--out", "")
    assert said in complaint(capsys, *command, "--out=")
    bad = os.fsdecode(b"a\xff")
    assert "is not UTF-8: rename the file or folder." in complaint(capsys, *command, "--out", bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", WITH_OUT, ids=" ".join)
def test_a_current_folder_that_was_removed_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "The current folder was removed: change to another one" in complaint(capsys, *command)


def test_a_current_folder_that_is_not_utf_8_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / os.fsdecode(b"a\xff")
    try:
        here.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    monkeypatch.chdir(here)
    assert "The current folder" in complaint(capsys, "landscape")


@pytest.mark.parametrize("command", [["list", "methods"], ["fewshot", "presets"]], ids=" ".join)
def test_output_that_cannot_be_written_is_one_sentence(command: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gradaccord", *command],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "gradaccord: The disk: No space left on device: make room, and repeat the command.\n"
    )
