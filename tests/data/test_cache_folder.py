"""`files.cache_folder`: the least recently used files go first, and what has no owner."""

from __future__ import annotations

import os
import time

import pytest
import torch
from safetensors.torch import save_file

from gradaccord.data.files.cache_folder import (
    LIMIT,
    cache_folder,
    cache_limit,
    clear,
    entries,
    prune,
    set_cache_limit,
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()


def keep(name, *, used):
    """A file of 1,000 bytes of numbers, last used so many seconds after 1970."""
    path = cache_folder() / f"images-{name}.safetensors"
    save_file({"x": torch.zeros(1000, dtype=torch.uint8)}, path, {"what": f"pixels of {name}"})
    os.utime(path, (used, used))
    return path


def test_files_are_listed_with_what_is_in_them_the_newest_first():
    old, new = keep("old", used=10), keep("new", used=20)
    assert [(e.path, e.used, e.kind, e.what) for e in entries()] == [
        (new, 20, "images", "pixels of new"),
        (old, 10, "images", "pixels of old"),
    ]
    new.write_bytes(b"damaged")
    os.utime(new, (20, 20))
    assert [entry.what for entry in entries()] == ["", "pixels of old"]


def test_above_the_limit_the_least_recently_used_go_but_not_what_is_needed_now():
    paths = [keep(str(i), used=10 + i) for i in range(4)]
    size = entries()[0].size
    set_cache_limit(2 * size)
    assert [entry.path for entry in entries()] == [paths[3], paths[2]]
    oldest = keep("oldest", used=1)
    assert [entry.path for entry in prune(keep=oldest)] == [paths[2]]
    set_cache_limit(0)
    assert entries() == []


def test_unfinished_files_have_an_owner_for_a_day():
    parts = {age: cache_folder() / f"{age}.part" for age in (1, 23, 25)}
    for hours, path in parts.items():
        path.touch()
        os.utime(path, (time.time() - 3600 * hours,) * 2)
    prune()
    assert [hours for hours, path in parts.items() if path.exists()] == [1, 23]


def test_without_a_readable_limit_the_usual_one_holds():
    assert cache_limit() == LIMIT
    (cache_folder() / "limit").write_text("much")
    assert cache_limit() == LIMIT
    set_cache_limit(7)
    assert cache_limit() == 7


def test_clearing_tells_what_was_removed_and_needs_no_folder(monkeypatch, tmp_path):
    path = keep("one", used=5)
    assert [entry.path for entry in clear()] == [path]
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "none"))
    assert (clear(), entries()) == ([], [])
