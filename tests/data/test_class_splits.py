"""`images.class_splits`: few-shot sets split by class."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_files import archive, picture

from gradaccord.data.images import class_splits

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


SHARED = Path(__file__).resolve().parents[2] / "../shared/data"


def test_a_folder_with_its_own_split_keeps_it(tmp_path):
    files = {
        f"{part}/{part}{c}/{i}.png": picture(i) for part in ("train", "val", "test") for c in "xy"
        for i in range(2)
    }  # fmt: skip
    splits = class_splits.load(archive(tmp_path / "own.zip", files))
    assert splits.train.names == ("trainx", "trainy")
    assert splits.validation.names == ("valx", "valy")
    assert splits.test.names == ("testx", "testy")


def test_classes_in_two_parts_are_merged_and_divided(tmp_path):
    files = {
        f"{part}/{c}/{part}{i}.png": picture(i) for part in ("train", "test") for c in range(10)
        for i in range(3)
    }  # fmt: skip
    splits = class_splits.load(archive(tmp_path / "own.zip", files))
    parts = (splits.train, splits.validation, splits.test)
    assert [len(part) for part in parts] == [6, 2, 2]
    assert sorted(name for part in parts for name in part.names) == sorted(str(c) for c in range(10))
    assert all(part.counts.tolist() == [6] * len(part) for part in parts)


def test_the_side_that_images_of_any_shape_get(tmp_path):
    def side(*sizes):
        folder = tmp_path / "-".join(f"{width}x{height}" for width, height in sizes)
        for i, size in enumerate(sizes):
            (folder / "a").mkdir(parents=True, exist_ok=True)
            Image.new("L", size).save(folder / "a" / f"{i}.png")
        return class_splits.common_side(folder)

    assert side((28, 28), (28, 28)) is None  # as they are
    assert side((28, 28), (30, 28)) == 28
    assert side((200, 150), (90, 120)) == 84
    assert side((200, 200), (200, 200)) == 84
    assert side((40, 12)) == 16  # the least that a network takes
    assert class_splits.common_side("glyphs") is None


def test_unknown_place_of_a_named_set(tmp_path, monkeypatch):
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    with pytest.raises(ValueError, match="give --data-dir .* or set GRADACCORD_DATA"):
        class_splits.load("omniglot")
    with pytest.raises(FileNotFoundError, match="omniglot does not exist"):
        class_splits.load("omniglot", tmp_path)
    (tmp_path / "omniglot").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no images_background.zip: fetch"):
        class_splits.load("omniglot", tmp_path)


@pytest.mark.skipif(not (SHARED / "cub200").is_dir(), reason="no ../shared/data/cub200")
def test_birds_have_their_counts():
    splits = class_splits.load("cub200", SHARED)
    parts = (splits.train, splits.validation, splits.test)
    assert [len(part) for part in parts] == [100, 50, 50]
    assert sum(len(part.images) for part in parts) == 11_788
    assert splits.train.images.shape[1:] == (3, 84, 84)
    assert min(int(part.counts.min()) for part in parts) >= 41


@pytest.mark.skipif(not (SHARED / "tiny_imagenet_fewshot").is_dir(), reason="no such set in ../shared")
def test_tiny_imagenet_has_its_counts():
    splits = class_splits.load("tiny_imagenet_fewshot", SHARED)
    parts = (splits.train, splits.validation, splits.test)
    assert [(len(part), len(part.images)) for part in parts] == [(64, 6400), (16, 1600), (20, 2000)]


@pytest.mark.skipif(not (SHARED / "fashion_mnist").is_dir(), reason="no ../shared/data/fashion_mnist")
def test_fashion_mnist_has_its_counts():
    splits = class_splits.load("fashion_mnist", SHARED)
    assert len(splits.test.images) == len(splits.validation.images) == 5000
    assert splits.train.images.shape[1:] == (1, 28, 28)
