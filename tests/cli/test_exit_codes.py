"""What no command can do is one sentence, and the exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradaccord.cli.app import main
from gradaccord.data.text import cldr


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
