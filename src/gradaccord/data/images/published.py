"""Sets of pictures: which are there, counted without decoding one; they are read elsewhere."""

from __future__ import annotations

import gzip
import os
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path, PurePosixPath

from gradaccord.data.dataset import Dataset
from gradaccord.data.files.found import Found
from gradaccord.data.files.layouts import SPLITS

FEW_SHOT = ("omniglot", "cub200", "tiny-imagenet-fewshot")
LABELLED = ("fashion-mnist", "mnist", "cifar10", "svhn")
NAMES = (*FEW_SHOT, *LABELLED)

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")
_OMNIGLOT = {"images_background": "background", "images_evaluation": "evaluation"}
_CIFAR_BATCH = 10_000  # images in each of its files, as published


def load(name: str, folder: Path) -> Dataset:
    """A set of labelled pictures; one whose classes are split has a reader of its own."""
    if name in FEW_SHOT:
        own = name.replace("-", "_")
        raise ValueError(
            f"`{name}` is a few-shot set, split by class: read it with "
            f"gradaccord.data.images.class_splits.load({own!r}, folder)."
        )
    read: Callable[[str, Path], Dataset] = import_module("gradaccord.data.images.labelled").load
    return read(name, _holding(folder, name))


def _holding(root: Path, name: str) -> Path:
    """The folder that `found` lists the set from; else the one given."""
    if not root.is_dir():
        return root
    return next((folder for folder in _folders(root, name) if _holds(folder, name)), root)


def _holds(folder: Path, name: str) -> bool:
    try:
        return bool(COUNTS[name](folder))
    except (OSError, EOFError, zlib.error, struct.error, zipfile.BadZipFile):
        return True  # reading it will tell what is broken


def found(root: Path) -> list[Found]:
    """The sets of pictures below a folder, in a sub-folder of their name."""
    listed = []
    for name, count in COUNTS.items():
        for folder in _folders(root, name):
            try:
                counts, problem = count(folder), ""
            except (OSError, EOFError, zlib.error, struct.error, zipfile.BadZipFile) as error:
                counts, problem = {}, f"{folder} holds a broken file ({error}): fetch it again."
            if counts or problem:
                kind = "few-shot images" if name in FEW_SHOT else "image"
                listed.append(Found(name, kind, "", counts, files=(str(folder),), problem=problem))
                break
    return listed


def _folders(root: Path, name: str) -> Iterable[Path]:
    spellings = {name, name.replace("-", "_"), name.replace("-", "")}
    inside = sorted(path for path in root.iterdir() if path.is_dir())
    return [p for p in (root, *inside) if p.resolve().name.lower() in spellings]


def _by_split(paths: Iterable[str]) -> dict[str, int]:
    """Pictures by the folder that says their split; {} if none does."""
    counts: Counter[str] = Counter()
    for path in paths:
        if path.lower().endswith(_SUFFIXES):
            split = next((SPLITS[p] for p in PurePosixPath(path).parts if p in SPLITS), "images")
            counts[split] += 1
    return {name: counts[name] for name in ("train", "dev", "test", "images") if counts[name]}


def _names(source: Path) -> Iterable[str]:
    if source.suffix == ".zip":
        with zipfile.ZipFile(source) as archive:
            return archive.namelist()
    return (
        PurePosixPath(Path(folder).relative_to(source).as_posix(), name).as_posix()
        for folder, _, names in os.walk(source)
        for name in names
    )


def _omniglot(folder: Path) -> dict[str, int]:
    counts = {}
    for stem, name in _OMNIGLOT.items():
        source = next((p for p in (folder / f"{stem}.zip", folder / stem) if p.exists()), None)
        if source is not None:
            counts[name] = sum(1 for path in _names(source) if path.lower().endswith(_SUFFIXES))
    return counts


def _class_folders(folder: Path) -> dict[str, int]:
    archives = sorted(folder.glob("*.zip"))
    return _by_split(_names(archives[0] if archives else folder))


def _idx(folder: Path) -> dict[str, int]:
    counts = {}
    for split, start in (("train", "train"), ("test", "t10k")):
        for path in sorted(folder.glob(f"{start}*images*idx3*")):
            with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as stream:
                counts[split] = int(struct.unpack(">I", stream.read(8)[4:])[0])
    return counts


def _cifar(folder: Path) -> dict[str, int]:
    archives = [p for p in folder.iterdir() if p.name.startswith("cifar-10") and p.suffix == ".gz"]
    batches = list(folder.rglob("data_batch_*"))
    tests = list(folder.rglob("test_batch*"))
    counts = {"train": len(batches) * _CIFAR_BATCH, "test": len(tests) * _CIFAR_BATCH}
    if archives and not batches:
        counts = {"train": 5 * _CIFAR_BATCH, "test": _CIFAR_BATCH}
    return {split: count for split, count in counts.items() if count}


def _svhn(folder: Path) -> dict[str, int]:
    counts = {}
    for split in ("train", "test"):
        path = folder / f"{split}_32x32.mat"
        if path.is_file():
            from scipy.io import whosmat

            shapes = {name: shape for name, shape, _ in whosmat(str(path))}
            counts[split] = int(shapes["y"][0])
    return counts


COUNTS: Mapping[str, Callable[[Path], dict[str, int]]] = {
    "omniglot": _omniglot,
    "cub200": _class_folders,
    "tiny-imagenet-fewshot": _class_folders,
    "fashion-mnist": _idx,
    "mnist": _idx,
    "cifar10": _cifar,
    "svhn": _svhn,
}
