"""Classes of images divided at random into those to train, validate and test with."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gradaccord.data.images.class_folders import ImageClasses

SHARES = (0.64, 0.16, 0.20)  # of classes without a split of their own: miniImageNet's proportions


@dataclass(frozen=True)
class ClassSplits:
    """Three sets of classes, no class in two of them (unless `note` says otherwise)."""

    name: str
    train: ImageClasses
    validation: ImageClasses
    test: ImageClasses
    note: str = ""

    def __str__(self) -> str:
        channels, height, width = self.train.images.shape[1:]
        kind = "grey" if channels == 1 else "colour"
        counts = " / ".join(str(len(part)) for part in (self.train, self.validation, self.test))
        text = f"{self.name}: {counts} classes to train / validate / test, {height}x{width} {kind}"
        return f"{text} ({self.note})" if self.note else text


def divide(
    name: str,
    classes: ImageClasses,
    shares: tuple[float, float, float] = SHARES,
    *,
    rotations: bool = False,
    seed: int = 0,
    least: int = 0,
) -> ClassSplits:
    """Divide classes at random.

    shares: to train, validate and test. rotations: of train classes. least: classes of each part.
    """
    count = len(classes)
    if count < 3 * least:
        fitting = f"use --ways {count // 3}, or give {3 * least}" if count >= 6 else "give at least 6"
        raise ValueError(
            f"`ways` is {least}, but {name} has only {count} classes for training, validation and test "
            f"together: {fitting} classes."
        )
    order = shuffled(count, seed)
    first = round(shares[0] * count)
    second = min(first + round(shares[1] * count), count - least)
    first = min(first, second - least)
    parts = (sorted(order[:first]), sorted(order[first:second]), sorted(order[second:]))
    train, validation, test = (classes.part(part) for part in parts)
    return ClassSplits(name, train.with_rotations() if rotations else train, validation, test)


def shuffled(count: int, seed: int) -> list[int]:
    """The numbers below `count` in random order."""
    generator = torch.Generator().manual_seed(seed)
    order: list[int] = torch.randperm(count, generator=generator, device="cpu").tolist()
    return order
