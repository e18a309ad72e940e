"""Words with IOB2 tags, one per line, a blank line between sentences: the CoNLL format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from gradaccord.data.examples import Tagged
from gradaccord.data.files.iob2 import REPAIRED, checked, repair, tags_of
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.text_files import File, at

_BLANK = re.compile(r"\n(?:[ \t\r]*\n)+")
_BLANK_BYTES = re.compile(rb"\n(?:[ \t\r]*\n)+")
Sentence = tuple[list[str], list[str]]  # words and tags
Rows = list[tuple[int, list[str]]]  # of one sentence: line number and cells


@dataclass(frozen=True)
class Conll:
    """A reader of such files; call it with a file and what is wanted.

    word, tag: the columns. sentence: a column with the sentence's number, where no blank lines separate
    them. types: other names of entity types -> ours; "O" drops one. bioes: E- ends and S- is a whole
    entity. bare: "BNEP" stands for "B-NEP". comments: lines from # to the line's end are skipped.
    """

    word: int = 0
    tag: int = -1
    sentence: int | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    bioes: bool = False
    bare: bool = False
    comments: bool = False
    encodings: tuple[str, ...] = ("utf-8",)

    def __call__(self, file: File, wanted: Wanted) -> list[Tagged]:
        """All sentences."""
        text = self._text(file)
        regular = self._regular(text, wanted)
        found = list(self._irregular(text, file, wanted) if regular is None else regular)
        if not found:
            raise ValueError(f"{file} holds no sentence: one word and its tag are expected on a line.")
        prefix = f"{wanted.language}:"
        if all(word.startswith(prefix) for words, _ in found for word in words):
            found = [([word[len(prefix) :] for word in words], tags) for words, tags in found]
        return [
            Tagged(tuple(words), tuple(tags), f"{wanted.split}-{number}")
            for number, (words, tags) in enumerate(found)
        ]

    def _regular(self, text: str, wanted: Wanted) -> list[Sentence] | None:
        """The sentences of a file of two columns without a fault, many times faster; None: another."""
        if self != PLAIN or "-DOCSTART-" in text:
            return None
        separator = "\t" if "\t" in text[: text.find("\n")] else " "
        inside = f"{separator}I-"
        known = tags_of(wanted.labels)
        found = []
        for block in _BLANK.split(text.strip("\n")):
            cells = block.replace("\n", separator).split(separator)
            words, tags = cells[::2], cells[1::2]
            if len(cells) != 2 * (block.count("\n") + 1) or not known.issuperset(tags) or "" in words:
                return None
            if inside in block:
                repaired, count = repair(tags)
                if count and wanted.iob == "strict":
                    return None  # the other reader knows the line
                wanted.note(REPAIRED, count)
                tags = repaired
            found.append((words, tags))
        return found

    def _irregular(self, text: str, file: File, wanted: Wanted) -> Iterator[Sentence]:
        wanted.notes.clear()  # of the attempt before
        for rows in self._sentences(text.split("\n"), file):
            tags = [self._named(cells[self.tag]) for _, cells in rows]
            tags = checked(tags, wanted.labels, wanted, partial(_where, file, rows))
            yield [cells[self.word] for _, cells in rows], tags

    def sentences(self, file: File) -> Iterator[Rows]:
        """Line numbers and cells of each sentence, unchecked."""
        return self._sentences(self._text(file).split("\n"), file)

    def _text(self, file: File) -> str:
        for encoding in self.encodings[:-1]:
            try:
                return file.text(encoding)
            except ValueError:
                continue
        return file.text(self.encodings[-1])

    def _sentences(self, lines: Iterable[str], file: File) -> Iterator[Rows]:
        rows: Rows = []
        current: str | None = None
        width = 0
        for number, line in enumerate(lines, start=1):
            if not line.strip(" \t\r"):
                if rows:
                    yield rows
                rows = []
                continue
            if self.comments and line.startswith("#"):
                continue
            cells = line.split("\t") if "\t" in line else line.split(" ")
            if cells[0] == "-DOCSTART-":
                continue
            width = width or len(cells)
            if len(cells) != width or len(cells) < 2 or not cells[self.word]:
                raise ValueError(
                    f"{at(file, number)}: {len(cells)} columns where {max(width, 2)} are expected: a "
                    f"word and its tag ({line[:40]!r})."
                )
            if self.sentence is not None:
                place = cells[self.sentence]
                if not place.replace(".", "").isdigit():
                    continue  # the header
                if place != current and rows:
                    yield rows
                    rows = []
                current = place
            rows.append((number, cells))
        if rows:
            yield rows

    def _named(self, tag: str) -> str:
        if tag == "O":
            return tag
        begin, kind = (tag[:1], tag[1:]) if self.bare else (tag[:1], tag[2:])
        if self.bioes:
            begin = {"S": "B", "E": "I"}.get(begin, begin)
        kind = self.types.get(kind, kind)
        return "O" if kind == "O" else f"{begin}-{kind}"


def _where(file: File, rows: Rows, place: int) -> str:
    return at(file, rows[place][0])


def types_in(file: File, reader: Conll) -> set[str]:
    """The entity types that occur in a file."""
    tags = {cells[reader.tag] for rows in reader.sentences(file) for _, cells in rows}
    return {tag[2:] for tag in tags if len(tag) > 2 and tag[1] == "-"}


PLAIN = Conll()


def count_sentences(file: File, wanted: Wanted) -> int:
    """Blocks of lines, without reading them."""
    content = file.content().strip()
    if any(odd in content for odd in (b"\r", b"\n\n\n", b"\n \n", b"\n\t\n")):
        return len(_BLANK_BYTES.split(content))
    return content.count(b"\n\n") + 1
