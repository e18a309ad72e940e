"""`images.class_folders`: folders and zip files of images."""

from __future__ import annotations

import io

import pytest
import torch
from data_files import archive, picture, two_classes
from PIL import Image

from gradaccord.data.images import class_splits
from gradaccord.data.images.class_folders import ImageClasses, read_classes
from gradaccord.data.images.labelled import Images

pytest.importorskip("PIL")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


def test_class_folders(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    from gradaccord.data.images.class_folders import read_classes

    for name, colour in (("cat", 0), ("dog", 255)):
        (tmp_path / name).mkdir()
        image_module.new("RGB", (8, 8), (colour,) * 3).save(tmp_path / name / "1.png")
    made = Images.of(read_classes(tmp_path, keep=False))
    assert made.labels.tolist() == [0, 1]
    assert made.images[1].float().mean() == 255


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


def test_corrupt_image_in_a_zip_is_named_in_one_sentence(tmp_path):
    files = two_classes()
    files["set/b/1.png"] = files["set/b/1.png"][:30]
    path = archive(tmp_path / "set.zip", files)
    with pytest.raises(
        ValueError, match=r"^Image set/b/1.png in .*set.zip cannot be read \(.*\): repair"
    ):
        read_classes(path)
    files["set/b/1.png"] = b"hello"
    with pytest.raises(ValueError, match="set/b/1.png in .*set.zip cannot be read"):
        read_classes(archive(path, files))


def test_damaged_bytes_inside_the_archive_are_named_too(tmp_path):
    path = archive(tmp_path / "set.zip", two_classes())
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"IDAT") + 6] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="Image set/a/0.png in .* cannot be read"):
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
    with pytest.raises(
        ValueError, match="text.zip cannot be read .*: give a folder or a whole zip file"
    ):
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
