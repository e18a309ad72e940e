"""Published image sets, written by the tests in their own formats, and files that are not them."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path

import pytest
import torch

from gradaccord import data
from gradaccord.data.images.cifar import read_cifar
from gradaccord.data.images.labelled import Images, Picture
from gradaccord.data.images.published import load
from gradaccord.data.images.svhn import read_svhn

np = pytest.importorskip("numpy")
SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
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
    with pytest.raises(ValueError, match="data_batch_2 cannot be read.*posix.system, which no array"):
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
    with pytest.raises(ValueError, match="corrupt archive"):
        read_cifar(path)


def test_cifar_binary_cut_off(tmp_path, ten):
    folder = binary_ten(tmp_path / "cifar", ten)
    (folder / "test_batch.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match="3 bytes long, no multiple of 3073"):
        read_cifar(folder)


def test_svhn(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    pixels = images(4)
    columns = {"X": pixels.transpose(2, 3, 1, 0), "y": np.array([[1], [10], [9], [2]], dtype=np.uint8)}
    scipy_io.savemat(tmp_path / "train_32x32.mat", columns)
    dataset = load("svhn", tmp_path)
    assert dataset.split("train").labels.tolist() == [1, 0, 9, 2]
    assert torch.equal(dataset.split("train").images, torch.from_numpy(pixels))
    (tmp_path / "train_32x32.mat").write_bytes(b"MATLAB, but not really")
    with pytest.raises(ValueError, match="not a file of SVHN"):
        read_svhn(tmp_path / "train_32x32.mat")
    scipy_io.savemat(tmp_path / "train_32x32.mat", {"X": pixels, "y": columns["y"]})
    with pytest.raises(ValueError, match=r"expected \[32, 32, 3, N\]"):
        read_svhn(tmp_path / "train_32x32.mat")


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


def test_images_are_a_sequence():
    made = Images(torch.zeros(3, 1, 4, 4, dtype=torch.uint8), torch.tensor([1, -1, 0]))
    assert [picture.label for picture in made] == [1, None, 0]
    assert isinstance(made[:2], Images)
    assert made.part([2, 0]).labels.tolist() == [0, 1]
    assert torch.equal(Images.of(list(made)).labels, made.labels)
    with pytest.raises(ValueError, match="2 labels for 3 images"):
        Images(made.images, made.labels[:2])
    with pytest.raises(ValueError, match="must be uint8"):
        Images(made.images.float(), made.labels)
    with pytest.raises(ValueError, match="2 different sizes"):
        Images.of([made[0], Picture(torch.zeros(1, 5, 5, dtype=torch.uint8), 0)])


def test_class_folders(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    from gradaccord.data.images.class_folders import read_classes

    for name, colour in (("cat", 0), ("dog", 255)):
        (tmp_path / name).mkdir()
        image_module.new("RGB", (8, 8), (colour,) * 3).save(tmp_path / name / "1.png")
    made = Images.of(read_classes(tmp_path, keep=False))
    assert made.labels.tolist() == [0, 1]
    assert made.images[1].float().mean() == 255


@pytest.mark.parametrize("name", ["mnist", "cifar10", "svhn"])
def test_nothing_there(tmp_path, name):
    with pytest.raises(ValueError, match="holds no"):
        load(name, tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        load(name, tmp_path / "nowhere")


def test_unknown_set(tmp_path):
    with pytest.raises(ValueError, match="`name` is 'imagenet': use one of omniglot, .*mnist"):
        load("imagenet", tmp_path)


def test_unpickler_reads_arrays_of_python_2():
    # As Python 2 wrote them: text that must be turned into bytes first.
    from gradaccord.data.images.cifar import _ArraysOnly

    array = np.arange(6, dtype=np.uint8)
    for protocol in (0, 1, 2):
        assert (
            _ArraysOnly(io.BytesIO(pickle.dumps(array, protocol)), encoding="bytes").load() == array
        ).all()


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
