"""Omniglot (Lake et al. 2015): 1,623 handwritten characters of 50 alphabets, 20 drawings each.

Read from the two archives of its authors, `images_background.zip` and `images_evaluation.zip`, or
from the folders inside them. 28x28 grey, ink 255 on 0. Classes are drawn at random over all
alphabets, as in supervised-reptile and in the few-shot experiments of Kedia et al. 2021: 1,200 to
train with, 423 to test. Of the 1,200, `validation` are held out to choose a checkpoint by (50, the
number of MAML++). Training classes turned by 90, 180 and 270 degrees count as classes of their own;
test classes stay upright.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from gradaccord.data.images.class_folders import ImageClasses, read_classes
from gradaccord.data.images.class_parts import ClassSplits, shuffled

FILES = ("images_background", "images_evaluation")
TRAIN = 1200  # classes, with those of the validation set
SPLIT_SEED = 0


def alphabet_and_character(path: PurePosixPath) -> str | None:
    """The class of `.../<alphabet>/<character>/<image>.png`."""
    return "/".join(path.parts[-3:-1]) if len(path.parts) >= 3 else None


def read_omniglot(folder: str | Path, *, size: int = 28) -> ImageClasses:
    """All characters, in the order of alphabet and number."""
    folder = Path(folder)
    sources = []
    for name in FILES:
        found = [path for path in (folder / f"{name}.zip", folder / name) if path.exists()]
        if not found:
            raise FileNotFoundError(
                f"{folder} has no {name}.zip: fetch it from the folder python/ of "
                "github.com/brendenlake/omniglot."
            )
        sources.append(found[0])
    return read_classes(sources, class_of=alphabet_and_character, size=size, grey=True, invert=True)


def load(
    folder: str | Path,
    *,
    size: int = 28,
    validation: int = 50,
    rotations: bool = True,
    seed: int = SPLIT_SEED,
) -> ClassSplits:
    """Omniglot split by class: 1,200 (less `validation`) to train, `validation`, the rest to test.

    rotations: of the training classes as new classes. seed: draws the split; the default is the one
    that this library reports numbers on.
    """
    characters = read_omniglot(folder, size=size)
    if not 1 <= validation < TRAIN:
        raise ValueError(
            f"`validation` is {validation}: hold out 1 to {TRAIN - 1} of the {TRAIN} classes."
        )
    order = shuffled(len(characters), seed)
    train = characters.part(order[: TRAIN - validation])
    return ClassSplits(
        "omniglot",
        train.with_rotations() if rotations else train,
        characters.part(order[TRAIN - validation : TRAIN]),
        characters.part(order[TRAIN:]),
    )
