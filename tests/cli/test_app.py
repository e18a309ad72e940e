"""The command line: fast help, one-sentence errors, and a version."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import gradaccord
from gradaccord.cli.app import main
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


COMMANDS = [
    *("demo", "landscape", "train", "validate", "compare", "sweep", "report", "list", "init", "export"),
    *("predict", "doctor"),
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_shows_an_example_and_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as exit_:
        main([*command.split(), "--help"])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    assert f"\n gradaccord {command or 'demo'} " in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)


def test_help_is_fast() -> None:
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "demo" in run("--help").stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert statistics.median(seconds) < 1.0  # of processor time; about 0.2 on a free machine


def test_the_command_line_does_not_import_torch() -> None:
    code = "import sys, gradaccord.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
