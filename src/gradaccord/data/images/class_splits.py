"""Few-shot image sets by name or folder: classes for training, validation and test.

birds = load("cub200", folder="data")               # data/cub200/cub200_84x84.zip
own = load("photos.zip", size=84)                   # train/, val/, test/, or class folders alone
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

import torch

from gradaccord.data.images import glyphs, omniglot
from gradaccord.data.images.class_folders import ImageClasses, image_sizes, read_classes
from gradaccord.data.images.class_parts import ClassSplits, divide
from gradaccord.data.images.idx import read_idx_splits

NAMES = ("glyphs", "omniglot", "cub200", "tiny_imagenet_fewshot", "fashion_mnist")
PARTS = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation",
         "test": "test"}  # fmt: skip
SMALLEST, LARGEST = 16, 84  # sides in pixels that images of any shape are resized to


def load(
    name: str | Path,
    folder: str | Path | None = None,
    *,
    size: int | None = None,
    grey: bool = False,
    ways: int = 0,
) -> ClassSplits:
    """A set by its name, or any folder or zip file of images.

    name: one of `NAMES`, or the path of a folder or zip file. folder: where the named sets are; else
    $GRADACCORD_DATA. size: resize to this many pixels (default for Omniglot: 28). grey: one channel.
    ways: classes that each part of your own images must have.
    """
    if str(name) == "glyphs":
        return glyphs.load(size=size or 28)
    if str(name) not in NAMES:
        return from_folder(_found(Path(name), folder), size=size, grey=grey, ways=ways)
    place = data_folder(str(name), folder)
    if str(name) == "omniglot":
        return omniglot.load(place, size=size or 28)
    if str(name) == "cub200":
        return cub200(place, size=size, grey=grey)
    if str(name) == "fashion_mnist":
        return fashion_mnist(place)
    return from_folder(only_zip(place), size=size, grey=grey, name=str(name))


def common_side(name: str | Path, folder: str | Path | None = None) -> int | None:
    """The `size` that your own images need; None for a named set, or small squares of one size.

    The shortest side of all, but at most `LARGEST`, at which few-shot networks are published.
    """
    if str(name) in NAMES:
        return None
    sizes = image_sizes(_found(Path(name), folder))
    shortest = min((min(size) for size in sizes), default=0)
    if len(sizes) < 2 and sizes <= {(shortest, shortest)} and shortest <= LARGEST:
        return None
    return max(SMALLEST, min(shortest, LARGEST))


def data_folder(name: str, folder: str | Path | None = None) -> Path:
    """The folder of a named set: `folder`/name, or `folder` itself if it has that name."""
    root = folder or os.environ.get("GRADACCORD_DATA")
    if root is None:
        raise ValueError(
            f"The folder of the set {name!r} is not known: give --data-dir (in Python: folder=...) or "
            "set GRADACCORD_DATA to the folder that holds it; --data glyphs needs none."
        )
    for place in (Path(root) / name, Path(root)):
        if place.is_dir() and place.resolve().name == name:
            return place
    raise FileNotFoundError(f"{Path(root) / name} does not exist: put the files of {name!r} there.")


def _found(path: Path, folder: str | Path | None) -> Path:
    """A folder or zip file as given, or below the folder of the named sets."""
    root = folder or os.environ.get("GRADACCORD_DATA")
    for place in (path, *([Path(root) / path] if root else [])):
        if place.exists():
            return place
    raise FileNotFoundError(
        f"{path} is neither a folder or zip file of images nor one of the sets {', '.join(NAMES)}."
    )


def cub200(folder: str | Path, *, size: int | None = None, grey: bool = False) -> ClassSplits:
    """Birds of CUB-200-2011 at 84x84: 100 / 50 / 50 classes.

    The images of a class may be spread over train/ and test/ (the set's own split, by image): they are
    merged. By class number from 0: even ones train, of the odd ones every other validates or tests,
    as in Chen et al. 2019 (A closer look at few-shot classification).
    """
    birds = read_classes(only_zip(Path(folder)), size=size, grey=grey)
    if len(birds) != 200:
        raise ValueError(f"{folder} holds {len(birds)} classes of birds where CUB-200 has 200.")
    return ClassSplits(
        "cub200",
        birds.part(range(0, 200, 2)),
        birds.part(range(1, 200, 4)),
        birds.part(range(3, 200, 4)),
    )


def fashion_mnist(folder: str | Path) -> ClassSplits:
    """Fashion-MNIST with half of its ten classes to train on: a check of 5-way code, not a benchmark.

    Even classes of the train file train, the same classes of the test file validate (other images, not
    other classes), odd classes of the test file test.
    """
    splits = read_idx_splits(Path(folder))
    for split in ("train", "test"):
        if split not in splits:
            raise FileNotFoundError(f"{folder} has no {split} files: put Fashion-MNIST there.")
    train, test = (_sorted(*splits[split], tuple("0123456789")) for split in ("train", "test"))
    return ClassSplits(
        "fashion_mnist",
        train.part(range(0, 10, 2)),
        test.part(range(0, 10, 2)),
        test.part(range(1, 10, 2)),
        note="validation on other images of the training classes",
    )


def from_folder(
    path: Path,
    *,
    size: int | None = None,
    grey: bool = False,
    name: str | None = None,
    ways: int = 0,
) -> ClassSplits:
    """A folder or zip of `train/`, `val/`, `test/` with class folders, or of class folders alone.

    Classes without such a split, or that occur in two parts of it, are divided 64 / 16 / 20 % at
    random; where they are few, so that each part has at least `ways`.
    """
    name = name or path.stem
    classes = read_classes(path, class_of=part_and_class, size=size, grey=grey)
    parts, own = zip(*(json.loads(text) for text in classes.names), strict=True)
    if set(parts) == {"train", "validation", "test"} and len(set(own)) == len(own):
        classes = replace(classes, names=own)
        places = {part: [i for i, p in enumerate(parts) if p == part] for part in set(parts)}
        train, validation, test = (classes.part(places[p]) for p in ("train", "validation", "test"))
        fewest = min((train, validation, test), key=len)
        if len(fewest) < ways:
            raise ValueError(
                f"`ways` is {ways}, but a part of {path} (train, val or test) has only {len(fewest)} "
                f"classes: use --ways {len(fewest)}, or give more classes."
            )
        return ClassSplits(name, train, validation, test)
    return divide(name, _merged(classes, own), least=ways)


def part_and_class(path: PurePosixPath) -> str | None:
    """Part of the split (or "") and class of `.../train/.../<class>/<image>`."""
    folders = path.parts[:-1]
    if not folders:
        return None
    part = next((PARTS[folder] for folder in folders[:-1] if folder in PARTS), "")
    return json.dumps([part, folders[-1]])


def _merged(classes: ImageClasses, own: tuple[str, ...]) -> ImageClasses:
    """Classes of one name become one."""
    names = sorted(set(own))
    labels = torch.tensor([names.index(name) for name in own], device="cpu")[classes.labels]
    return _sorted(classes.images, labels, tuple(names))


def _sorted(images: torch.Tensor, labels: torch.Tensor, names: tuple[str, ...]) -> ImageClasses:
    order = labels.argsort(stable=True)
    return ImageClasses(images[order], labels[order], names)


def only_zip(folder: Path) -> Path:
    """The zip file in a folder, or the folder if its classes are unpacked in it."""
    archives = sorted(folder.glob("*.zip"))
    return archives[0] if len(archives) == 1 else folder
