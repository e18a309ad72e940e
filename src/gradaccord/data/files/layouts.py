"""Published sets: their kind, their classes, and the layouts that their files may have."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch

from gradaccord.data.dataset import ORDER, SPLITS
from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.text_files import File

Iob = Literal["repair", "strict"]


@dataclass(frozen=True)
class Wanted:
    """What a reader must read, and where it counts what it repaired or left out."""

    split: str
    language: str
    labels: tuple[str, ...] = ()
    iob: Iob = "repair"
    notes: Counter[str] = field(default_factory=Counter)

    def note(self, what: str, times: int = 1) -> None:
        """Count something that happened to this split's examples."""
        if times:
            self.notes[f"{self.split}: {what}"] += times


# What becomes of the examples of a split as they are read: a list, or a place on disk (`data.stored`).
Keep = Callable[[Iterable[Any]], Sequence[Any]]
Read = Callable[[File, Wanted], list[Any]]
Count = Callable[[File, Wanted], int]


@dataclass(frozen=True)
class Layout:
    """One way in which files of a set are named, and how such a file is read.

    pattern: of the path's end, case ignored; its groups `split` and `language` say what is inside.
    split: where the pattern has no such group. names: of splits, beside `SPLITS`; codes: of languages,
    as written -> as we call them. inside_splits, inside_languages: several of them in one file.
    many: a split may be spread over several files. count: of the examples, cheaper than `read`.
    """

    pattern: str
    read: Read
    count: Count | None = None
    split: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)
    inside_splits: tuple[str, ...] = ()
    inside_languages: tuple[str, ...] = ()
    many: bool = False

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(rf"(?:^|/)(?:{self.pattern})$", re.IGNORECASE)

    def match(self, path: str) -> tuple[Sequence[str], Sequence[str]] | None:
        """The languages and the splits that a file of this path holds; None: not of this layout."""
        found = self._expression.search(path)
        if found is None:
            return None
        groups = found.groupdict()
        languages: Sequence[str] = self.inside_languages or ("",)
        if groups.get("language"):
            written = groups["language"]
            languages = (self.codes.get(written.lower(), written),)
        splits: Sequence[str] = self.inside_splits or (self.split,)
        if groups.get("split"):
            written = groups["split"].lower()
            splits = (self.names.get(written) or SPLITS[written],)
        return languages, splits


def with_own_ids(examples: Iterable[Any], keep: Keep = list) -> Sequence[Any]:
    """The examples of a split, kept, with no id twice: a second "12" becomes "12#2".

    TyDiQA's train files restart their numbers in each shard, DUC repeats documents; predictions go by
    id. Only an id's hash is remembered, 8 bytes.
    """
    hashes = array("q")

    def noted() -> Iterator[Any]:
        for example in examples:
            hashes.append(hash(example.id))
            yield example

    kept = keep(noted())
    ordered = torch.frombuffer(hashes, dtype=torch.int64).sort().values if hashes else torch.empty(0)
    twice = array("q", dict.fromkeys(ordered[1:][ordered[1:] == ordered[:-1]].tolist()))
    if not twice:
        return kept
    times = array("q", bytes(8 * len(twice)))

    def named() -> Iterator[Any]:
        for example in kept:
            known = hash(example.id)
            place = bisect_left(twice, known)
            if place < len(twice) and twice[place] == known:
                times[place] += 1
                if times[place] > 1:
                    example = replace(example, id=f"{example.id}#{times[place]}")
            yield example

    return keep(named())


@dataclass(frozen=True)
class Source:
    """The files of one split of one set."""

    layout: Layout
    files: tuple[File, ...]

    def read(self, wanted: Wanted) -> Sequence[Any]:
        """All examples."""
        found: list[Any] = []
        for file in self.files:
            with reading(file):
                found += self.layout.read(file, wanted)
        return with_own_ids(found)

    def count(self, wanted: Wanted) -> int:
        """How many examples `read` would give."""
        if self.layout.count is None:
            return len(self.read(wanted))
        total = 0
        for file in self.files:
            with reading(file):
                total += self.layout.count(file, wanted)
        return total


@dataclass(frozen=True)
class PublishedSet:
    """A data set by name.

    languages: whether there is one such set for each of several ("xnli/sw"). language: else its own.
    labels: classes or entity types; labels_in: of a language that has others.
    options: of the task, which this set needs.
    """

    name: str
    kind: str
    layouts: tuple[Layout, ...]
    labels: tuple[str, ...] = ()
    language: str = "en"
    languages: bool = False
    labels_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    def labels_of(self, language: str) -> tuple[str, ...]:
        """The classes in a language."""
        return self.labels_in.get(language, self.labels)

    def sources(self, files: Mapping[str, File]) -> dict[str, dict[str, Source]]:
        """Language -> split -> files; the first layout that has a split gives it."""
        found: dict[str, dict[str, Source]] = {}
        paths = sorted(files, key=lambda path: (path.count("/"), len(path), path))
        for layout in self.layouts:
            new: dict[tuple[str, str], list[File]] = {}
            for path in paths:
                match = layout.match(path)
                if match is not None:
                    for language in match[0]:
                        for split in match[1]:
                            new.setdefault((language or self.language, split), []).append(files[path])
            for (language, split), theirs in new.items():
                chosen = sorted(theirs, key=str) if layout.many else theirs[:1]
                found.setdefault(language, {}).setdefault(split, Source(layout, tuple(chosen)))
        return {
            language: {split: found[language][split] for split in ORDER if split in found[language]}
            for language in sorted(found)
        }


def count_lines(file: File, wanted: Wanted) -> int:
    """Lines that are not blank."""
    return sum(1 for line in file.content().split(b"\n") if line.strip())
