"""`gradaccord cache`: what is kept is listed, bounded and removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from gradaccord.cli.app import main
from gradaccord.cli.cache import shown, size_of
from gradaccord.data.files.cache_folder import LIMIT, cache_limit, entries
from gradaccord.data.files.tensor_cache import cached


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


def keep(name: str, size: int, used: int) -> None:
    """A file of about so many bytes that was last used so many seconds after 1970."""
    before = {entry.path for entry in entries()}
    zeros = {"x": torch.zeros(size, dtype=torch.uint8)}
    cached("encoded", name, lambda: (zeros, {}), what=f"tokens of {name}")
    (new,) = {entry.path for entry in entries()} - before
    os.utime(new, (used, used))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(["cache", *arguments])
    assert exit_.value.code == 0
    return capsys.readouterr().out


def test_a_list_with_sizes_the_newest_first_and_the_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    keep("old", 3_000, used=10**9)
    keep("new", 2_000_000, used=2 * 10**9)
    lines = said(capsys).splitlines()
    assert lines[0].split() == ["kind", "size", "last", "used", "what"]
    assert lines[1].startswith("encoded  2.0 MB  2033-")
    assert lines[1].rstrip().endswith("tokens of new")
    assert lines[2].rstrip().endswith("tokens of old")
    total = "".join(lines[3:])
    assert total == f"2.0 MB of at most 20.0 GB in {tmp_path / 'cache'}."
    assert said(capsys, "size").strip() == total


def test_above_the_limit_what_was_not_used_for_longest_goes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep("old", 4_000, used=10**9)
    keep("middle", 4_000, used=10**9 + 1)
    keep("new", 4_000, used=10**9 + 2)
    assert "of at most 10.0 KB" in said(capsys, "limit", "10KB")
    assert [entry.what for entry in entries()] == ["tokens of new", "tokens of middle"]
    keep("newest", 4_000, used=10**9 + 3)  # the limit stays, and a new file keeps to it
    assert [entry.what for entry in entries()] == ["tokens of newest", "tokens of new"]
    keep("huge", 50_000, used=10**9 + 4)  # what is needed now is kept, alone
    assert [entry.what for entry in entries()] == ["tokens of huge"]


def test_clear_removes_all_and_keeps_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert cache_limit() == LIMIT
    said(capsys, "limit", "1 MB")
    keep("one", 4_000, used=10**9)
    assert said(capsys, "clear").startswith("Removed 1 files, 4.")
    assert (entries(), cache_limit()) == ([], 10**6)


@pytest.mark.parametrize("arguments", [("limit", "much"), ("limit", "1e30GB"), ("clear", "5GB")])
def test_a_size_that_is_none_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["cache", *arguments])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith(f"gradaccord: SIZE is {arguments[1]!r}")


def test_sizes_are_read_as_they_are_shown() -> None:
    assert size_of("5GB") == size_of("5 gb") == size_of(shown(5 * 10**9)) == 5 * 10**9
    assert size_of("123") == 123
