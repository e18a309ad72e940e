"""`images.published`: image sets by name."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import torch
from data_files import archive, picture

from gradaccord import data
from gradaccord.data.images.published import load

np = pytest.importorskip("numpy")


SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


RANDOM = np.random.default_rng(0)


def test_idx(tmp_path):
    pixels = RANDOM.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    head = struct.pack(">I", 0x803) + struct.pack(">III", *pixels.shape)
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(head + pixels.tobytes())
    labels = struct.pack(">II", 0x801, 5) + bytes([0, 1, 2, 3, 9])
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(labels)
    dataset = load("mnist", tmp_path)
    assert dataset.split("train").images.shape == (5, 1, 28, 28)
    assert dataset.split("train").labels.tolist() == [0, 1, 2, 3, 9]
    mean, spread = dataset.options["mean"], dataset.options["std"]
    assert mean[0] == pytest.approx((pixels / 255).mean())
    assert spread[0] == pytest.approx((pixels / 255).std())


def test_fashion_mnist_as_shared():
    folder = SHARED / "fashion_mnist"
    if not folder.exists():
        pytest.skip("the shared Fashion-MNIST is not here")
    dataset = load("fashion-mnist", folder)
    assert dataset.counts == {"train": 10_000, "test": 10_000}
    assert dataset.labels[9] == "Ankle boot"
    assert dataset.split("test").labels.bincount().tolist() == [1000] * 10


@pytest.mark.parametrize("name", ["mnist", "cifar10", "svhn"])
def test_nothing_there(tmp_path, name):
    with pytest.raises(ValueError, match="holds no"):
        load(name, tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        load(name, tmp_path / "nowhere")


def test_unknown_set(tmp_path):
    with pytest.raises(ValueError, match="`name` is 'imagenet': use one of omniglot, .*mnist"):
        load("imagenet", tmp_path)


def test_a_set_is_found_below_the_data_folder_and_can_be_cut(tmp_path: Path) -> None:
    below = tmp_path / "data" / "fashion_mnist"
    below.mkdir(parents=True)
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (40, 4, 4), dtype=np.uint8))
    pixels[1] = pixels[0]
    for name, values in (("images-idx3", pixels), ("labels-idx1", torch.arange(40) % 10)):
        head = bytes([0, 0, 8, values.dim()]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
        (below / f"train-{name}-ubyte").write_bytes(head + values.to(torch.uint8).numpy().tobytes())
    whole = data.load("fashion-mnist", tmp_path / "data")
    assert whole.counts == {"train": 40}
    parts = data.cut(whole, 0.3)
    held, rest = parts.split("dev"), parts.split("train")
    assert len(held) + len(rest) == 40
    assert len(held) > 2
    seen = {picture.image.numpy().tobytes() for picture in rest}
    assert not any(picture.image.numpy().tobytes() in seen for picture in held)
    assert rest.labels.tolist() == [
        label for image, label in zip(pixels, (torch.arange(40) % 10).tolist(), strict=True)
        if image.unsqueeze(0).numpy().tobytes() in seen
    ]  # fmt: skip


def test_classes_of_a_few_shot_set_in_two_halves_with_images_to_test_on(tmp_path: Path) -> None:
    folder = tmp_path / "tiny_imagenet_fewshot"
    parts = {"a": "train", "b": "train", "c": "val", "d": "test"}  # of the few-shot split
    files = {
        f"{part}/{name}/{i}.png": picture(20 * i + "abcd".index(name))
        for name, part in parts.items()
        for i in range(5)
    }
    folder.mkdir()
    archive(folder / "set.zip", files)
    halves = [data.load(f"tiny-imagenet-half-{half}", tmp_path) for half in (1, 2)]
    assert [half.labels for half in halves] == [("a", "c"), ("b", "d")]
    found = {one.name: one for one in data.find(tmp_path)}
    for half in halves:
        assert half.counts == {"train": 8, "test": 2} == dict(found[half.name].counts)
        assert half.split("train").labels.tolist() == [0] * 4 + [1] * 4
        assert half.split("test").labels.tolist() == [0, 1]
    assert halves[0].split("test").images.flatten(1)[:, 0].tolist() == [80, 82]  # the fifth images
