"""Images by class: what is read, what is kept, and what a bad file says."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import pytest
import torch

pytest.importorskip("PIL")
from PIL import Image

from gradaccord.data.images import class_splits, glyphs, omniglot
from gradaccord.data.images.class_folders import ImageClasses, read_classes
from gradaccord.data.images.idx import read_idx

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


def picture(value: int, size: int = 6, mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (size, size), value if mode == "L" else (value, 2 * value, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


def two_classes() -> dict[str, bytes]:
    return {f"set/{c}/{i}.png": picture(10 * (1 + "ab".index(c)) + i) for c in "ab" for i in range(3)}


def test_folder_and_zip_give_the_same_tensor(tmp_path):
    files = two_classes()
    packed = read_classes(archive(tmp_path / "set.zip", files))
    for name, content in files.items():
        path = tmp_path / "plain" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    plain = read_classes(tmp_path / "plain")
    assert torch.equal(packed.images, plain.images)
    assert packed.images.dtype == torch.uint8
    assert packed.images.shape == (6, 3, 6, 6)
    assert packed.images[:, 0, 0, 0].tolist() == [10, 11, 12, 20, 21, 22]
    assert packed.images[:, 1, 0, 0].tolist() == [20, 22, 24, 40, 42, 44]
    assert packed.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert packed.names == plain.names == ("a", "b")


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


def test_corrupt_image_in_a_zip_is_named_in_one_sentence(tmp_path):
    files = two_classes()
    files["set/b/1.png"] = files["set/b/1.png"][:30]
    path = archive(tmp_path / "set.zip", files)
    with pytest.raises(ValueError, match=r"^Image set/b/1.png in .*set.zip is corrupt \(.*\): mend"):
        read_classes(path)
    files["set/b/1.png"] = b"hello"
    with pytest.raises(ValueError, match="set/b/1.png in .*set.zip is corrupt"):
        read_classes(archive(path, files))


def test_damaged_bytes_inside_the_archive_are_named_too(tmp_path):
    path = archive(tmp_path / "set.zip", two_classes())
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"IDAT") + 6] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="Image set/a/0.png in .* is corrupt"):
        read_classes(path)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "holds no image in a class folder"),
        ({"a/0.png": picture(1), "a/1.png": picture(1, size=9)}, "is 9x9, and .* is 6x6: give `size`"),
    ],
)
def test_unusable_archives_say_why(tmp_path, files, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_classes(archive(tmp_path / "set.zip", files))


def test_missing_file_and_no_archive_say_why(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_classes(tmp_path / "no.zip")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(ValueError, match="neither a folder nor a whole zip"):
        read_classes(tmp_path / "text.zip")


def test_sizes_and_grey(tmp_path):
    files = {"a/0.png": picture(100, 12, "L"), "b/0.png": picture(50, 7, "L")}
    read = read_classes(archive(tmp_path / "set.zip", files), size=5, grey=True, invert=True)
    assert read.images.shape == (2, 1, 5, 5)
    assert read.images[:, 0, 2, 2].tolist() == [155, 205]


def test_a_folder_of_greyscale_pictures_is_announced_and_read_as_grey(tmp_path):
    """Saved with one channel or with three equal ones; one spot of colour is colour."""

    def same(value):
        buffer = io.BytesIO()
        Image.new("RGB", (6, 6), (value, value, value)).save(buffer, "PNG")
        return buffer.getvalue()

    files = {f"{c}/{i}.png": picture(10 * c + i, mode="L") for c in range(10) for i in range(3)}
    several = {f"{c}/same{i}.png": same(10 * c + i) for c in range(10) for i in range(3)}
    grey = class_splits.load(archive(tmp_path / "grey.zip", {**files, **several}))
    assert str(grey).endswith("6x6 grey")
    assert grey.train.images.shape == (6 * 6, 1, 6, 6)
    told = class_splits.load(tmp_path / "grey.zip", grey=True)
    assert torch.equal(grey.train.images, told.train.images)
    spot = Image.new("RGB", (6, 6))
    spot.putpixel((5, 5), (0, 0, 1))
    buffer = io.BytesIO()
    spot.save(buffer, "PNG")
    colour = class_splits.load(archive(tmp_path / "b.zip", {**files, "9/spot.png": buffer.getvalue()}))
    assert str(colour).endswith("6x6 colour")
    assert colour.train.images.shape[1] == 3


def test_large_files_are_decoded_by_threads_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr("gradaccord.data.images.class_folders.WORTH_THREADS", 0)
    files = {f"{c}/{i:03}.png": picture(i, 4, "L") for c in "ab" for i in range(100)}
    read = read_classes(archive(tmp_path / "set.zip", files), grey=True)
    assert read.images[:, 0, 0, 0].tolist() == [*range(100), *range(100)]


def test_part_and_rotations():
    images = torch.arange(2 * 3 * 4, dtype=torch.uint8).view(6, 1, 2, 2)
    classes = ImageClasses(images, torch.tensor([0, 0, 1, 1, 1, 2]), ("a", "b", "c"))
    part = classes.part([2, 0])
    assert part.names == ("c", "a")
    assert part.labels.tolist() == [0, 1, 1]
    assert torch.equal(part.images, images[[5, 0, 1]])
    turned = classes.with_rotations()
    assert len(turned) == 12
    assert turned.counts.tolist() == [2, 3, 1] * 4
    quarter = turned.images[turned.labels == 3 + 1]  # class b, turned once
    assert torch.equal(quarter, images[2:5].rot90(1, (-2, -1)))
    with pytest.raises(ValueError, match="Class 3 does not exist"):
        classes.part([3])


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


def test_unknown_place_of_a_named_set(tmp_path, monkeypatch):
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    with pytest.raises(ValueError, match="Give --data-dir .* or set GRADACCORD_DATA"):
        class_splits.load("omniglot")
    with pytest.raises(FileNotFoundError, match="omniglot does not exist"):
        class_splits.load("omniglot", tmp_path)
    (tmp_path / "omniglot").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no images_background.zip: fetch"):
        class_splits.load("omniglot", tmp_path)


def test_glyphs_have_over_a_thousand_classes_split_by_code_point_and_are_the_same_again(
    tmp_path, monkeypatch
):
    first = glyphs.draw()
    assert len(first) > 1000
    told = (Path(__file__).parents[2] / "docs" / "fewshot.md").read_text()
    assert f"`glyphs` are {len(first):,} characters" in told
    assert f"{glyphs.SAMPLES} pictures each" in told
    assert first.counts.tolist() == [glyphs.SAMPLES] * len(first)
    assert first.images.shape[1:] == (1, 28, 28)
    ink = (first.images > 127).float().mean((1, 2, 3))
    assert float(ink.min()) > 0.005  # no empty picture
    assert float(ink.max()) < 0.6
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "another"))
    splits = glyphs.load()  # drawn anew, in another folder
    again = dict(zip(splits.test.names, splits.test.images.split(glyphs.SAMPLES), strict=True))
    for name, images in zip(first.names, first.images.split(glyphs.SAMPLES), strict=True):
        assert name not in again or torch.equal(images, again[name])
    parts = [set(part.names) for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) > 1000
    assert all(len(part) > 100 for part in parts)


def idx(values: torch.Tensor, kind: int, letter: str) -> bytes:
    head = bytes([0, 0, kind, values.dim()]) + struct.pack(f">{values.dim()}I", *values.shape)
    return head + struct.pack(f">{values.numel()}{letter}", *values.flatten().tolist())


@pytest.mark.parametrize(
    ("dtype", "kind", "letter"),
    [(torch.uint8, 8, "B"), (torch.int16, 11, "h"), (torch.float32, 13, "f"), (torch.float64, 14, "d")],
)
def test_idx_of_every_kind(tmp_path, dtype, kind, letter):
    values = torch.arange(24).view(2, 3, 4).to(dtype) * 3
    (tmp_path / "plain").write_bytes(idx(values, kind, letter))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(values, kind, letter)))
    for name in ("plain", "packed.gz"):
        read = read_idx(tmp_path / name)
        assert read.dtype == dtype
        assert torch.equal(read, values)


def test_bad_idx_files_say_why(tmp_path):
    whole = idx(torch.arange(6, dtype=torch.uint8), 8, "B")
    for content, sentence in (
        (b"hello", "is not an idx file"),
        (whole[:-1], "is 13 bytes long where its head promises 14"),
        (gzip.compress(whole)[:-9], "is a corrupt gzip file"),
    ):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(ValueError, match=sentence):
            read_idx(tmp_path / "file")


@pytest.mark.skipif(not (SHARED / "omniglot").is_dir(), reason="no ../shared/data/omniglot")
def test_omniglot_has_its_counts_and_the_published_split():
    splits = omniglot.load(SHARED / "omniglot")
    assert len(splits.train) == 4 * 1150
    assert len(splits.validation) == 50
    assert len(splits.test) == 423
    for part in (splits.train, splits.validation, splits.test):
        assert part.images.shape[1:] == (1, 28, 28)
        assert part.counts.unique().tolist() == [20]
    upright = set(splits.train.names[:1150])
    assert not upright & (set(splits.validation.names) | set(splits.test.names))
    assert float((splits.test.images > 127).float().mean()) < 0.25  # ink is bright, paper dark


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
