"""A data set: splits of examples of one kind, with its class names; and what `find` returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ORDER = ("train", "dev", "test")  # of the splits
SPLITS: Mapping[str, str] = {  # as files and folders call them -> as we do
    "train": "train", "training": "train",
    "dev": "dev", "val": "dev", "valid": "dev", "validation": "dev", "testa": "dev",
    "test": "test", "testb": "test",
}  # fmt: skip


@dataclass(frozen=True)
class Dataset:
    """What a reader returns, and a task is trained on.

    kind: the kind of task it is for, a key of `gradaccord.tasks.KINDS`.
    splits: those of "train", "dev" and "test" that exist; each a sequence of `data.examples`, or an
        `Images` for the kind "image".
    labels: the classes in the order of their numbers, or the entity types of a tagged set.
    """

    name: str
    kind: str
    splits: Mapping[str, Sequence[Any]]
    labels: tuple[str, ...] = ()
    language: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # of the task, which this set needs
    notes: Mapping[str, int] = field(default_factory=dict)  # what was repaired or left out, how often
    read_as: tuple[str, ...] = ()  # how own tables were found to be written, as sentences
    written: Mapping[str, str] = field(default_factory=dict)  # what own files write -> the class

    def split(self, name: str) -> Sequence[Any]:
        """One split; if it does not exist, the error names those that do."""
        return self.splits[chosen_splits(name, self.splits, self.name)[0]]

    @property
    def counts(self) -> dict[str, int]:
        """How many examples each split has."""
        return {name: len(examples) for name, examples in self.splits.items()}


@dataclass(frozen=True)
class Found:
    """What `find` returns. counts: examples of each split. problem: why a split is not counted."""

    name: str
    kind: str
    language: str
    counts: Mapping[str, int]
    labels: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    problem: str = ""


def chosen_splits(wished: Iterable[str] | None, existing: Mapping[str, object], name: str) -> list[str]:
    """The requested splits (None: all) of the set `name`; each must exist."""
    chosen = [wished] if isinstance(wished, str) else [*(existing if wished is None else wished)]
    for split in chosen:
        if split not in existing:
            raise ValueError(
                f"`{name}` has no split {split!r}: it has {', '.join(existing) or 'none'}."
            )
    return chosen
