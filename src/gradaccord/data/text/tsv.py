"""Sentences and pairs in tab-separated files, quotes not special: what GLUE, CS224N and XNLI share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradaccord.data.examples import Text
from gradaccord.data.files.labels import Classes, value
from gradaccord.data.files.layouts import Layout, Wanted, count_lines
from gradaccord.data.files.text_files import File, at

Column = str | int | None  # by its name in the header, or by its number from 0, or none


@dataclass(frozen=True)
class Tsv:
    """A reader of such files; call it with a file and what is wanted.

    label: may be missing in test files. id: may be missing; examples are then numbered. language: the
    column by which one language is picked out. spellings: of classes, beside their names. quoted:
    cells that a CSV writer quoted are unquoted. gaps: rows with an empty label are left out of train
    and unlabelled elsewhere, counted. skip_malformed: rows of another width are left out, counted.
    """

    first: Column
    second: Column = None
    label: Column = "label"
    id: Column = "index"
    language: Column = None
    header: bool = True
    spellings: Mapping[str, str] = field(default_factory=dict)
    quoted: bool = False
    gaps: bool = False
    skip_malformed: bool = False

    def __call__(self, file: File, wanted: Wanted) -> list[Text]:
        """All examples."""
        lines = file.lines()
        # A header may be a name short where columns are counted; then the first row gives the width.
        named = isinstance(self.first, str)
        names = lines[0 if named else min(self.header, len(lines) - 1)].split("\t")
        first = _place(self.first, names, file)
        second = _place(self.second, names, file)
        label = _place(self.label, names, file, optional=wanted.split == "test")
        id = _place(self.id, names, file, optional=True)
        language = _place(self.language, names, file)
        start = f"{wanted.language}\t" if language == 0 else ""  # most lines are of other languages
        classes = Classes(wanted.labels, self.spellings)
        clean = unquoted if self.quoted else str.strip
        examples: list[Text] = []
        for number, line in enumerate(lines[self.header :], start=1 + self.header):
            if not line.startswith(start):
                continue
            cells = line.split("\t")
            if len(cells) != len(names):
                if not self.skip_malformed:
                    raise ValueError(
                        f"{at(file, number)}: {len(cells)} columns where line 1 has {len(names)}: "
                        "columns are separated by one tab each."
                    )
                wanted.note("malformed lines left out")
                continue
            if language and cells[language] != wanted.language:
                continue
            target: int | float | None = None
            if self.gaps and label is not None and not cells[label].strip():
                wanted.note("pairs without a label")
                if wanted.split == "train":
                    continue
            elif label is not None and wanted.labels:
                target = classes.number(cells[label], file, number)
            elif label is not None:
                target = value(cells[label], file, number)
            pair = None if second is None else clean(cells[second])
            name = f"{wanted.split}-{len(examples)}" if id is None else cells[id]
            examples.append(Text(clean(cells[first or 0]), pair, target, name))
        return examples

    def layout(self, pattern: str, **more: Any) -> Layout:
        """Files of a name, read so."""
        return Layout(pattern, self, self.count, **more)

    def count(self, file: File, wanted: Wanted) -> int:
        """How many examples there are, mostly without reading them."""
        if self.skip_malformed or self.language is not None:
            return len(self(file, wanted))
        missing = 0
        if self.gaps and wanted.split == "train":
            content = file.content()
            missing = content.count(b"\t\n") + content.count(b"\t\r\n") + content.endswith(b"\t")
        return count_lines(file, wanted) - self.header - missing


def unquoted(cell: str) -> str:
    """A cell that a CSV writer quoted, as it was before."""
    inner = cell[1:-1]
    if len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"').strip()
    return cell.strip()


def _place(column: Column, names: list[str], file: File, *, optional: bool = False) -> int | None:
    if column is None:
        return None
    if isinstance(column, int) and column < len(names):
        return column % len(names)
    if column in names:
        return names.index(str(column))
    if optional:
        return None
    if isinstance(column, int):
        raise ValueError(
            f"{at(file, 1)}: {len(names)} columns where {column + 1} are expected: columns are "
            "separated by one tab each."
        )
    raise ValueError(
        f"{at(file, 1)}: there is no column {column!r}; the columns are: {', '.join(names)}."
    )
