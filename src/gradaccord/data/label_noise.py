"""Wrong labels on purpose: a control that a comparison must be able to see.

with_label_noise(dataset, 0.1)              # one training label in ten becomes another class

Rows are drawn as in `splits`, so that every run has the same ones; a row that is wrong at 0.1 is also
wrong at 0.3. Other splits stay as they are.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import answer_of
from gradaccord.data.splits import uniform


def with_label_noise(dataset: Dataset, share: float, *, seed: int = 0) -> Dataset:
    """The data set with about this share of its training labels replaced by another class.

    share: 0..1. seed: draws other rows.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"`label_noise` is {share:g}: it is a share, 0 to 1.")
    classes = len(dataset.labels)
    examples = dataset.splits.get("train", ())
    if answer_of(dataset.kind) != "class" or classes < 2:
        raise ValueError(
            f"`label_noise` changes the classes of a classification, and `{dataset.name}` is a "
            f"{dataset.kind} task: leave it out."
        )
    noisy = [_noisy(e, row, share, classes, seed) for row, e in enumerate(examples)]
    return dataclasses.replace(dataset, splits={**dataset.splits, "train": noisy})


def _noisy(example: Any, row: int, share: float, classes: int, seed: int) -> Any:
    if example.label is None or uniform(f"noise/{seed}/{row}") >= share:
        return example
    step = 1 + int(uniform(f"class/{seed}/{row}") * (classes - 1))
    return dataclasses.replace(example, label=(example.label + step) % classes)
