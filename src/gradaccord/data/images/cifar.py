"""CIFAR-10 and CIFAR-100 as published: Python batches or binary ones, unpacked or in their tar.gz.

The Python batches are pickles. They are read by an unpickler that knows arrays, text and numbers and
nothing else, so that a file that is not what it says cannot run code.
"""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from gradaccord.data.files.bad_files import reading

SIZE = 3 * 32 * 32
Labelled = tuple[torch.Tensor, torch.Tensor]  # uint8 [N, 3, 32, 32], int64 [N]
Files = Mapping[str, Callable[[], bytes]]

# Files of each split: the Python version's, and the binary version's.
_BATCHES = {
    10: {
        "train": [f"data_batch_{i}" for i in range(1, 6)],
        "test": ["test_batch"],
        "names": ("batches.meta", b"label_names", "batches.meta.txt"),
        "label": b"labels",
    },
    100: {
        "train": ["train"],
        "test": ["test"],
        "names": ("meta", b"fine_label_names", "fine_label_names.txt"),
        "label": b"fine_labels",
    },
}


def read_cifar(source: str | Path, classes: int = 10) -> tuple[dict[str, Labelled], tuple[str, ...]]:
    """The splits that are there, and the names of the classes (of the hundred: the fine ones).

    source: the folder with the batches, or one that it or the tar.gz is in, or the tar.gz itself.
    """
    if classes not in _BATCHES:
        raise ValueError(f"`classes` is {classes}: there are CIFAR-10 and CIFAR-100.")
    layout: Any = _BATCHES[classes]
    source = Path(source)
    files = _files(source, classes)
    splits = {}
    for split in ("train", "test"):
        python = [name for name in layout[split] if name in files]
        binary = [f"{name}.bin" for name in layout[split] if f"{name}.bin" in files]
        parts = []
        for name in python or binary:
            with reading(f"{name} in {source}"):
                content = files[name]()
                own = layout["label"]
                part = _python(content, own) if python else _binary(content, classes)
                parts.append(part)
        if parts:
            splits[split] = (torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]))
    if not splits:
        raise ValueError(
            f"{source} holds no batches of CIFAR-{classes}: give the folder with {layout['train'][0]}, "
            f"or with cifar-{classes}-python.tar.gz."
        )
    return splits, _names(files, layout["names"], classes, source)


def _files(source: Path, classes: int) -> Files:
    """What to read, by the name without folders."""
    if source.is_file():
        return _archived(source)
    found: dict[str, Callable[[], bytes]] = {
        path.name: path.read_bytes for path in sorted(source.rglob("*")) if path.is_file()
    }
    if any(name in found for name in _wanted(classes)):
        return found
    for path in sorted(source.glob(f"cifar-{classes}-*.tar.gz")):
        return _archived(path)
    return found


def _wanted(classes: int) -> list[str]:
    layout: Any = _BATCHES[classes]
    names = [*layout["train"], *layout["test"]]
    return names + [f"{name}.bin" for name in names]


def _archived(path: Path) -> Files:
    found: dict[str, Callable[[], bytes]] = {}
    with reading(path), tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None:
                content = stream.read()
                found[PurePosixPath(member.name).name] = partial(bytes, content)
    return found


def _python(content: bytes, label: bytes) -> Labelled:
    batch = _unpickled(content)
    data, labels = batch[b"data"], torch.tensor(batch[label], device="cpu")
    images = torch.from_numpy(data.reshape(-1, 3, 32, 32).copy())
    if images.dtype != torch.uint8 or labels.shape != (len(images),):
        raise ValueError(f"{len(labels)} labels for {len(images)} images: fetch it again.")
    return images, labels.long()


def _binary(content: bytes, classes: int) -> Labelled:
    head = 1 if classes == 10 else 2  # of the hundred: coarse label, then fine
    if not content or len(content) % (head + SIZE):
        raise ValueError(f"{len(content)} bytes are not a multiple of {head + SIZE}: fetch it again.")
    rows = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, head + SIZE)
    return rows[:, head:].reshape(-1, 3, 32, 32).contiguous(), rows[:, head - 1].long()


def _names(files: Files, where: tuple[str, bytes, str], classes: int, source: Path) -> tuple[str, ...]:
    pickled, key, text = where
    if pickled in files:
        with reading(f"{pickled} in {source}"):
            names = [name.decode() for name in _unpickled(files[pickled]())[key]]
    elif text in files:
        with reading(f"{text} in {source}"):
            names = files[text]().decode().split()
    else:
        names = [str(number) for number in range(classes)]
    return tuple(names)


def _unpickled(content: bytes) -> Any:
    return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()


class _ArraysOnly(pickle.Unpickler):
    """Refuses to look up anything but what a numpy array is made of."""

    def find_class(self, module: str, name: str) -> Any:
        import numpy as np

        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np.empty(0).__reduce__()[0]
        if (module, name) == ("_codecs", "encode"):  # bytes, the way Python 2's protocol spells them
            return _latin_1
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no array needs")


def _latin_1(text: str, _: str = "latin1") -> bytes:
    return text.encode("latin1")
