"""A data set: splits of examples of one kind, with the names of its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Dataset:
    """What a reader gives and a task is trained on.

    kind: the kind of task it is for, a key of `gradaccord.tasks.KINDS`.
    splits: "train", "dev" and "test", those that exist; each a sequence of `data.examples`, or an
        `Images` for the kind "image".
    labels: the classes in the order of their numbers, or the entity types of a tagged set.
    """

    name: str
    kind: str
    splits: Mapping[str, Sequence[Any]]
    labels: tuple[str, ...] = ()
    language: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # of the task, which this set needs
    notes: Mapping[str, int] = field(default_factory=dict)  # what was mended or left out, how often

    def split(self, name: str) -> Sequence[Any]:
        """One split; one that does not exist is an error that names those that do."""
        if name not in self.splits:
            raise ValueError(
                f"`{self.name}` has no split {name!r}: it has {', '.join(self.splits) or 'none'}."
            )
        return self.splits[name]

    @property
    def counts(self) -> dict[str, int]:
        """How many examples each split has."""
        return {name: len(examples) for name, examples in self.splits.items()}
