"""Published sets of labelled images by name: read, or counted without decoding an image.

fashion = load("fashion-mnist", "data")          # a Dataset of the kind "image"
fashion.split("train").images                    # uint8 [10000, 1, 28, 28]
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import torch

from gradaccord.data.dataset import ORDER, SPLITS, Dataset, Found
from gradaccord.data.files.bad_files import reading
from gradaccord.data.images.cifar import read_cifar
from gradaccord.data.images.class_folders import SUFFIXES, read_classes
from gradaccord.data.images.class_splits import only_zip, part_and_class
from gradaccord.data.images.idx import FILES, read_idx_splits
from gradaccord.data.images.labelled import Images
from gradaccord.data.images.svhn import count_svhn, read_svhn

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip
OMNIGLOT = {"background": "images_background", "evaluation": "images_evaluation"}
# Files of each split, and the images in one.
CIFAR_FILES = {
    10: {"data_batch_*": ("train", 10_000), "test_batch*": ("test", 10_000)},
    100: {"train*": ("train", 50_000), "test*": ("test", 10_000)},
}

Counts = dict[str, int]
Content = tuple[dict[str, Images], tuple[str, ...]]  # splits, and the names of the classes


@dataclass(frozen=True)
class ImageSet:
    """How the images of each split are counted in a folder, and how they are read.

    read: None for few-shot sets, which are split by class (`class_splits`). folder: its name, if not
    that of the set.
    """

    count: Callable[[Path], Counts]
    read: Callable[[Path], Content] | None = None
    folder: str | None = None


def load(name: str, folder: str | Path) -> Dataset:
    """A set of labelled images, in the folder given or in one of its name there.

    The dataset's options hold the mean and the standard deviation of its training images, by which a
    task normalises.
    """
    if name not in SETS:
        raise ValueError(f"`name` is {name!r}: use one of {', '.join(SETS)}.")
    read = SETS[name].read
    if read is None:
        own = name.replace("-", "_")
        raise ValueError(
            f"`{name}` is a few-shot set, split by class: read it with "
            f"gradaccord.data.images.class_splits.load({own!r}, folder)."
        )
    folder = Path(folder)
    if not folder.exists():
        raise ValueError(f"{folder} does not exist: give the folder that holds {name}.")
    named = [path for path in _folders(folder, name) if any(_counted(name, path))]
    place = named[0] if named else folder
    with reading(place, "fetch the broken file in it again"):
        return as_dataset(name, *read(place))


def as_dataset(name: str, splits: dict[str, Images], labels: tuple[str, ...]) -> Dataset:
    """Images as a data set of the kind "image", with what they are to be normalised by."""
    for split, images in splits.items():
        for label in sorted(set(images.labels.tolist())):
            if not -1 <= label < len(labels):
                raise ValueError(
                    f"An image of the split {split!r} has the label {label} where there are "
                    f"{len(labels)} classes: fetch the set again."
                )
    mean, spread = splits.get("train", next(iter(splits.values()))).statistics()
    return Dataset(name, "image", splits, labels, options={"mean": mean, "std": spread})


def found(root: Path) -> list[Found]:
    """The sets of images below a folder, in a sub-folder of their name."""
    listed = []
    for name, known in SETS.items():
        for folder in _folders(root, name):
            counts, problem = _counted(name, folder)
            if counts or problem:
                kind = "few-shot images" if known.read is None else "image"
                listed.append(Found(name, kind, "", counts, files=(str(folder),), problem=problem))
                break
    return listed


def _folders(root: Path, name: str) -> list[Path]:
    name = SETS[name].folder or name
    spellings = {name, name.replace("-", "_"), name.replace("-", "")}
    inside = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return [p for p in (root, *inside) if p.resolve().name.lower() in spellings]


def _counted(name: str, folder: Path) -> tuple[Counts, str]:
    """The images of each split, or what is wrong."""
    try:
        with reading(folder, "fetch the broken file in it again"):
            return SETS[name].count(folder), ""
    except (ValueError, OSError) as error:
        return {}, str(error)


def _images_in(source: Path) -> list[PurePosixPath]:
    """The images in a folder or zip file."""
    if source.suffix == ".zip":
        with zipfile.ZipFile(source) as archive:
            paths = [PurePosixPath(name) for name in archive.namelist()]
    else:
        walked = ((Path(folder), names) for folder, _, names in os.walk(source))
        paths = [
            PurePosixPath((folder / name).relative_to(source).as_posix())
            for folder, names in walked
            for name in names
        ]
    return [path for path in paths if path.suffix.lower() in SUFFIXES]


def _count_omniglot(folder: Path) -> Counts:
    counts = {}
    for name, stem in OMNIGLOT.items():
        source = next((p for p in (folder / f"{stem}.zip", folder / stem) if p.exists()), None)
        if source is not None:
            counts[name] = len(_images_in(source))
    return counts


def _count_class_folders(folder: Path) -> Counts:
    """By the folder that names the split, "images" where none does."""
    counts = Counter(
        next((SPLITS[part] for part in path.parts if part in SPLITS), "images")
        for path in _images_in(only_zip(folder))
    )
    return {name: counts[name] for name in (*ORDER, "images") if counts[name]}


def _read_class_folders(folder: Path) -> Content:
    classes = read_classes(only_zip(folder), class_of=part_and_class)
    parts, own = zip(*(json.loads(text) for text in classes.names), strict=True)
    names = sorted(set(own))
    numbers = torch.tensor([names.index(name) for name in own], device="cpu")[classes.labels]
    splits = {}
    for split in ORDER:
        here = torch.tensor([SPLITS.get(part, "train") == split for part in parts], device="cpu")
        rows = here[classes.labels]
        if rows.any():
            splits[split] = Images(classes.images[rows], numbers[rows])
    return splits, tuple(names)


def _count_half(folder: Path, *, half: int) -> Counts:
    files = sorted(_images_in(only_zip(folder)))
    chosen = set(_half(sorted({path.parent.name for path in files}), half))
    counts = Counter(path.parent.name for path in files if path.parent.name in chosen)
    test = sum(len(_held_out(number)) for number in counts.values())
    return {"train": counts.total() - test, "test": test} if counts else {}


def _read_half(folder: Path, *, half: int) -> Content:
    """Half of the classes, whatever few-shot split they are in; a fifth of each class is test."""
    classes = read_classes(only_zip(folder))
    classes = classes.part([classes.names.index(name) for name in _half(classes.names, half)])
    test = torch.zeros(len(classes.labels), dtype=torch.bool, device="cpu")
    first = 0
    for count in classes.counts.tolist():
        test[[first + place for place in _held_out(count)]] = True
        first += count
    rows = {"train": ~test, "test": test}
    splits = {name: Images(classes.images[own], classes.labels[own]) for name, own in rows.items()}
    return splits, classes.names


def _half(names: Sequence[str], half: int) -> Sequence[str]:
    """Every other class, so that both halves have some of each part."""
    return names[half - 1 :: 2]


def _held_out(images: int) -> range:
    """Which images of a class are test: every fifth."""
    return range(4, images, 5)


def _count_idx(folder: Path) -> Counts:
    counts = {}
    for split, start in FILES.items():
        for path in sorted(folder.glob(f"{start}*images*idx3*")):
            with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as stream:
                counts[split] = int(struct.unpack(">I", stream.read(8)[4:])[0])
    return counts


def _read_idx(folder: Path, *, labels: tuple[str, ...]) -> Content:
    return {split: Images(*pair) for split, pair in read_idx_splits(folder).items()}, labels


def _count_cifar(folder: Path, *, classes: int) -> Counts:
    sizes = CIFAR_FILES[classes]
    counts: Counts = Counter()
    for pattern, (split, size) in sizes.items():
        files = [path for path in folder.rglob(pattern) if path.suffix in ("", ".bin")]
        counts[split] += size * sum(path.is_file() for path in files)
    if not any(counts.values()) and any(folder.glob(f"cifar-{classes}-*.gz")):
        counts = {"train": 50_000, "test": 10_000}
    return {split: n for split, n in counts.items() if n} or _count_class_folders(folder)


def _read_cifar(folder: Path, *, classes: int) -> Content:
    """The published batches, or class folders of images in train/ and test/."""
    if _images_in(only_zip(folder)):
        return _read_class_folders(folder)
    splits, labels = read_cifar(folder, classes)
    return {split: Images(*pair) for split, pair in splits.items()}, labels


def _count_svhn(folder: Path) -> Counts:
    counts = {}
    for split in ("train", "test"):
        path = folder / f"{split}_32x32.mat"
        if path.is_file():
            counts[split] = count_svhn(path)
    return counts


def _read_svhn(folder: Path) -> Content:
    files = {split: folder / f"{split}_32x32.mat" for split in ("train", "test", "extra")}
    splits = {split: Images(*read_svhn(path)) for split, path in files.items() if path.is_file()}
    if not splits:
        raise ValueError(f"{folder} holds no train_32x32.mat: fetch SVHN's cropped digits (format 2).")
    return splits, DIGITS


SETS: Mapping[str, ImageSet] = {
    "omniglot": ImageSet(_count_omniglot),
    "cub200": ImageSet(_count_class_folders, _read_class_folders),
    "tiny-imagenet-fewshot": ImageSet(_count_class_folders),
    **{
        f"tiny-imagenet-half-{half}": ImageSet(
            partial(_count_half, half=half), partial(_read_half, half=half), "tiny-imagenet-fewshot"
        )
        for half in (1, 2)
    },
    "fashion-mnist": ImageSet(_count_idx, partial(_read_idx, labels=CLOTHES)),
    "mnist": ImageSet(_count_idx, partial(_read_idx, labels=DIGITS)),
    "cifar10": ImageSet(partial(_count_cifar, classes=10), partial(_read_cifar, classes=10)),
    "cifar100": ImageSet(partial(_count_cifar, classes=100), partial(_read_cifar, classes=100)),
    "svhn": ImageSet(_count_svhn, _read_svhn),
}
NAMES = tuple(SETS)
