"""`files.tensor_cache`: decoded images are kept, and made again where they must be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from data_files import archive, picture, two_classes
from filelock import FileLock

from gradaccord.core.watch import Watch
from gradaccord.data.files.tensor_cache import cached
from gradaccord.data.images.class_folders import read_classes

pytest.importorskip("PIL")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


def cut_off(path: Path) -> None:
    """A file that lost its end, as another one: the one that is mapped stays whole."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:100])


def test_second_reading_comes_from_the_cache_until_the_file_changes(tmp_path, monkeypatch):
    path = archive(tmp_path / "set.zip", two_classes())
    first = read_classes(path)
    monkeypatch.setattr("gradaccord.data.images.class_folders._decode", None)  # would fail if called
    again = read_classes(path)
    assert torch.equal(first.images, again.images)
    assert first.names == again.names
    archive(path, {**two_classes(), "set/c/0.png": picture(9)})
    with pytest.raises(TypeError):
        read_classes(path)


def test_a_cut_off_cache_file_is_made_again(tmp_path):
    path = archive(tmp_path / "set.zip", two_classes())
    first = read_classes(path)
    (kept,) = (tmp_path / "cache").iterdir()
    cut_off(kept)
    assert torch.equal(read_classes(path).images, first.images)


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "occupied"))
    assert len(read_classes(archive(tmp_path / "set.zip", two_classes()))) == 2


def test_one_process_makes_a_file_and_another_waits_and_says_so(tmp_path: Path) -> None:
    """Two real processes, of which the first takes two seconds."""
    code = """
import sys, time, torch
from gradaccord.core.watch import Watch
from gradaccord.data.files.tensor_cache import cached

def make():
    print("making", flush=True)
    time.sleep(2)
    return {"x": torch.arange(5)}, {"by": sys.argv[1]}

found = cached("slow", "key", make, what="the rows", watch=Watch(say=lambda s: print(s, flush=True)))
print(found[0]["x"].tolist(), found[1], flush=True)
"""

    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, name]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    first = start("first")
    assert first.stdout is not None
    assert first.stdout.readline() == "making\n"
    second = start("second")
    made = "[0, 1, 2, 3, 4] {'by': 'first'}\n"
    assert first.communicate()[0] == made
    # A slow start may come too late to wait, never so that it makes the file again.
    said = second.communicate()[0]
    assert said in (made, f"Another process is preparing the rows: waiting for it.\n{made}")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".safetensors"]


def test_whoever_holds_the_lock_is_waited_for_and_its_file_used(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "cache").mkdir()
    tensors = {"x": torch.arange(3), "none": torch.empty(0), "flag": torch.tensor([True])}
    cached("slow", "key", lambda: (tensors, {}))
    (file,) = (tmp_path / "cache").iterdir()
    content = file.read_bytes()
    file.unlink()
    lock = FileLock(file.with_suffix(".lock"))
    lock.acquire()

    def finish(sentence: str) -> None:
        told.append(sentence)
        file.write_bytes(content)
        lock.release()

    found, _ = cached("slow", "key", lambda: ({}, {}), what="the rows", watch=Watch(say=finish))
    assert told == ["Another process is preparing the rows: waiting for it."]
    assert {name: part.tolist() for name, part in found.items()} == {
        "x": [0, 1, 2], "none": [], "flag": [True],
    }  # fmt: skip


def test_what_is_kept_is_mapped_and_not_read(tmp_path: Path) -> None:
    """200 MB that nobody looks at take no memory."""
    psutil = pytest.importorskip("psutil")
    cached("big", "key", lambda: ({"x": torch.zeros(200 * 10**6, dtype=torch.uint8)}, {}))
    before = psutil.Process().memory_info().rss
    found, _ = cached("big", "key", lambda: ({}, {}))
    assert found["x"][10**8] == 0
    assert psutil.Process().memory_info().rss - before < 20 * 10**6
