"""`images.svhn`: MATLAB files."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.images.published import load
from gradaccord.data.images.svhn import count_svhn, read_svhn

np = pytest.importorskip("numpy")


RANDOM = np.random.default_rng(0)


def images(count: int) -> np.ndarray:
    return RANDOM.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)


def test_svhn(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    pixels = images(4)
    columns = {"X": pixels.transpose(2, 3, 1, 0), "y": np.array([[1], [10], [9], [2]], dtype=np.uint8)}
    scipy_io.savemat(tmp_path / "train_32x32.mat", columns)
    dataset = load("svhn", tmp_path)
    assert dataset.split("train").labels.tolist() == [1, 0, 9, 2]
    assert torch.equal(dataset.split("train").images, torch.from_numpy(pixels))
    (tmp_path / "train_32x32.mat").write_bytes(b"MATLAB, but not really")
    with pytest.raises(
        ValueError,
        match="cannot be read .*not a MATLAB file of version 5.*: fetch it again",
    ):
        read_svhn(tmp_path / "train_32x32.mat")
    scipy_io.savemat(tmp_path / "train_32x32.mat", {"X": pixels, "y": columns["y"]})
    with pytest.raises(ValueError, match=r"expected \[32, 32, 3, N\]"):
        read_svhn(tmp_path / "train_32x32.mat")


def test_images_are_counted_without_unpacking(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    path = tmp_path / "train_32x32.mat"
    columns = {"X": images(4).transpose(2, 3, 1, 0), "y": np.ones((4, 1), np.uint8)}
    scipy_io.savemat(path, columns, do_compression=True)
    assert count_svhn(path) == 4
    scipy_io.savemat(path, {"X": columns["X"]})
    with pytest.raises(ValueError, match="holds no variable y"):
        count_svhn(path)
