"""`images.cifar`: both versions, packed or not, and files that are not what they say."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from pathlib import Path

import pytest
import torch

from gradaccord.data.images.cifar import read_cifar
from gradaccord.data.images.published import load

np = pytest.importorskip("numpy")


RANDOM = np.random.default_rng(0)


def images(count: int) -> np.ndarray:
    return RANDOM.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)


def pickled(images: np.ndarray, **labels: list[int]) -> bytes:
    content = {b"data": images.reshape(len(images), -1)}
    content |= {name.encode(): values for name, values in labels.items()}
    return pickle.dumps(content, protocol=2)


@pytest.fixture
def ten():
    pixels = images(12)
    labels = [i % 10 for i in range(12)]
    return torch.from_numpy(pixels), labels


def python_ten(folder: Path, ten) -> Path:
    pixels, labels = ten[0].numpy(), ten[1]
    folder.mkdir(parents=True)
    for i in range(5):
        part = slice(2 * i, 2 * i + 2)
        (folder / f"data_batch_{i + 1}").write_bytes(pickled(pixels[part], labels=labels[part]))
    (folder / "test_batch").write_bytes(pickled(pixels[10:], labels=labels[10:]))
    names = [f"class {i}".encode() for i in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=2))
    return folder


def binary_ten(folder: Path, ten) -> Path:
    pixels, labels = ten[0].numpy(), ten[1]
    folder.mkdir(parents=True)
    rows = [bytes([label]) + image.tobytes() for label, image in zip(labels, pixels, strict=True)]
    for i in range(5):
        (folder / f"data_batch_{i + 1}.bin").write_bytes(b"".join(rows[2 * i : 2 * i + 2]))
    (folder / "test_batch.bin").write_bytes(b"".join(rows[10:]))
    (folder / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n")
    return folder


def archived(path: Path, folder: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, folder.name)
    return path


@pytest.mark.parametrize("write", [python_ten, binary_ten])
@pytest.mark.parametrize("packed", [False, True])
def test_cifar10_as_published(tmp_path, ten, write, packed):
    name = "batches-py" if write is python_ten else "batches-bin"
    folder = write(tmp_path / "made" / f"cifar-10-{name}", ten)
    source = folder.parent
    if packed:
        source = tmp_path / "packed"
        source.mkdir()
        archived(source / "cifar-10-python.tar.gz", folder)
    dataset = load("cifar10", source)
    assert dataset.counts == {"train": 10, "test": 2}
    assert torch.equal(dataset.split("train").images, ten[0][:10])
    assert dataset.split("test").labels.tolist() == ten[1][10:]
    assert len(dataset.labels) == 10
    assert dataset.labels[1] == ("class 1" if write is python_ten else "b")
    assert len(dataset.options["mean"]) == 3


def test_cifar100_reads_the_fine_labels(tmp_path):
    pixels = images(3)
    (tmp_path / "train").write_bytes(pickled(pixels, fine_labels=[99, 0, 7], coarse_labels=[1, 2, 3]))
    (tmp_path / "test").write_bytes(pickled(pixels[:1], fine_labels=[5], coarse_labels=[1]))
    splits, labels = read_cifar(tmp_path, 100)
    assert splits["train"][1].tolist() == [99, 0, 7]
    assert len(labels) == 100
    binary = tmp_path / "binary"
    binary.mkdir()
    (binary / "train.bin").write_bytes(b"".join(bytes([1, f]) + p.tobytes() for f, p in
                                                zip([99, 0, 7], pixels, strict=True)))  # fmt: skip
    splits, _ = read_cifar(binary, 100)
    assert splits["train"][1].tolist() == [99, 0, 7]
    assert torch.equal(splits["train"][0], torch.from_numpy(pixels))


class Runs:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_pickle_that_runs_code_is_refused(tmp_path, ten):
    folder = python_ten(tmp_path / "cifar", ten)
    trace = tmp_path / "trace"
    (folder / "data_batch_2").write_bytes(pickle.dumps({b"data": Runs(f"touch {trace}")}, protocol=2))
    with pytest.raises(ValueError, match="data_batch_2 in .*posix.system, which no array"):
        read_cifar(folder)
    assert not trace.exists()


@pytest.mark.parametrize(
    "content", [b"", b"not a pickle", pickle.dumps([1]), pickle.dumps({b"data": 1})]
)
def test_a_batch_that_is_none(tmp_path, ten, content):
    folder = python_ten(tmp_path / "cifar", ten)
    (folder / "test_batch").write_bytes(content)
    with pytest.raises(ValueError, match="test_batch .*fetch it again"):
        read_cifar(folder)


def test_cifar_archive_cut_off(tmp_path, ten):
    path = archived(tmp_path / "cifar-10-python.tar.gz", python_ten(tmp_path / "made" / "c", ten))
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(ValueError, match="cannot be read"):
        read_cifar(path)


def test_cifar_binary_cut_off(tmp_path, ten):
    folder = binary_ten(tmp_path / "cifar", ten)
    (folder / "test_batch.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match="3 bytes are not a multiple of 3073"):
        read_cifar(folder)


def test_unpickler_reads_arrays_of_python_2():
    # As Python 2 wrote them: text that must be turned into bytes first.
    from gradaccord.data.images.cifar import _ArraysOnly

    array = np.arange(6, dtype=np.uint8)
    for protocol in (0, 1, 2):
        assert (
            _ArraysOnly(io.BytesIO(pickle.dumps(array, protocol)), encoding="bytes").load() == array
        ).all()
