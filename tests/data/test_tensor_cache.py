"""`files.tensor_cache`: decoded images are kept, and made again where they must be."""

from __future__ import annotations

import pytest
import torch
from data_files import archive, picture, two_classes

from gradaccord.data.images.class_folders import read_classes

pytest.importorskip("PIL")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


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
    kept.write_bytes(kept.read_bytes()[:100])
    assert torch.equal(read_classes(path).images, first.images)


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "occupied"))
    assert len(read_classes(archive(tmp_path / "set.zip", two_classes()))) == 2
