"""Sentence summaries: Gigaword, DUC 2004, Google's compressions, Reuters leads and headlines."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

from gradaccord.data.examples import Document
from gradaccord.data.files.layouts import Layout, PublishedSet, Wanted, count_lines
from gradaccord.data.files.text_files import File, at, check_text, field
from gradaccord.data.text.json_lines import JsonLines

LINES = JsonLines("summarization")
PAIRS = JsonLines("summarization", {"text": "document", "summaries": "summary"})
REUTERS = {"TRAIN": "train", "TEST": "test", "NOT-USED": "dev"}
# Of the 10,000 evaluation pairs the first 1,000 are the customary test set; the next serve as dev.
GOOGLE_TEST = 1000


def read_reuters(file: File, wanted: Wanted) -> list[Document]:
    """Pairs of one of Lewis's splits; those that he did not use are the dev split."""
    rows = []
    for line, row in file.json_lines():
        written = field(row, "lewissplit", file, line, str)
        if written not in REUTERS:
            raise ValueError(
                f"{at(file, line)}: the split {written!r} is not one of {', '.join(REUTERS)}."
            )
        if REUTERS[written] == wanted.split:
            rows.append((line, row))
    return PAIRS.examples(rows, file, wanted) if rows else []


def count_reuters(file: File, wanted: Wanted) -> int:
    """The pairs of one split, without reading them."""
    written = next(name for name, split in REUTERS.items() if split == wanted.split)
    return len(re.findall(rb'"lewissplit"\s*:\s*"%s"' % written.encode(), file.content()))


def read_aligned(file: File, wanted: Wanted, *, ends: dict[str, str]) -> list[Document]:
    """Two plain files, line by line; `ends` gives the other's name by what is in this one's."""
    name = file.name
    for mine, theirs in ends.items():
        if mine in name:
            return _aligned(file, [file.beside(name.replace(mine, theirs))], wanted)
    raise ValueError(f"{file} is not named after one of {', '.join(ends)}.")


def read_references(file: File, wanted: Wanted) -> list[Document]:
    """`input.txt` with its references in `task1_ref0.txt` and so on."""
    found = [file.beside("task1_ref0.txt")]
    while (reference := file.sibling(f"task1_ref{len(found)}.txt")) is not None:
        found.append(reference)
    return _aligned(file, found, wanted)


def _aligned(file: File, references: list[File], wanted: Wanted) -> list[Document]:
    texts = file.lines()
    columns = [reference.lines() for reference in references]
    for reference, column in zip(references, columns, strict=True):
        if len(column) != len(texts):
            raise ValueError(
                f"{reference} has {len(column)} lines where {file} has {len(texts)}: "
                "they must correspond."
            )
    summaries = zip(*columns, strict=True)
    return [
        Document(text.strip(), tuple(s.strip() for s in several), f"{wanted.split}-{number}")
        for number, (text, several) in enumerate(zip(texts, summaries, strict=True))
    ]


def read_google(file: File, wanted: Wanted) -> list[Document]:
    """JSON objects over many lines, one after another, as Google published them."""
    text = file.text()
    decoder = json.JSONDecoder()
    examples: list[Document] = []
    place, part = 0, file.name.split(".")[-2]
    while place < len(text):
        try:
            row, place = decoder.raw_decode(text, place)
            check_text(row)
        except json.JSONDecodeError as error:
            raise ValueError(f"{at(file, error.lineno)}: not JSON ({error.msg}).") from error
        place += len(text[place : place + 64]) - len(text[place : place + 64].lstrip())
        line = text.count("\n", 0, place) if len(examples) < 2 else 1
        sentence = field(row, "graph.sentence", file, line, str).strip()
        compressed = field(row, "compression.text", file, line, str).strip()
        examples.append(Document(sentence, (compressed,), f"{part}-{len(examples)}"))
    if wanted.split == "test":
        return examples[:GOOGLE_TEST]
    return examples[GOOGLE_TEST : 2 * GOOGLE_TEST] if wanted.split == "dev" else examples


def _set(name: str, *layouts: Layout, **more: Any) -> PublishedSet:
    return PublishedSet(name, "summarization", layouts, **more)


_TITLES = partial(read_aligned, ends={".article": ".title"})
_SOURCES = partial(read_aligned, ends={".src": ".tgt", ".source": ".target"})

SETS = (
    _set(
        "gigaword",
        LINES.layout(r"gigaword_test1951\.jsonl", split="test"),
        Layout(r"(?P<split>train|valid)\.article(?:\.filter)?\.txt", _TITLES, count_lines),
        Layout(r"Giga/input\.txt", read_references, count_lines, split="test"),
        Layout(
            r"(?:ggw|giga)\w*/(?:[^/]+/)?(?P<split>train|dev|valid|val|test)\.(?:src|source)(?:\.txt)?",
            _SOURCES,
            count_lines,
        ),
    ),
    _set(
        "duc2004",
        LINES.layout(r"duc2004\.jsonl", split="test"),
        Layout(r"DUC2004/input\.txt", read_references, count_lines, split="test"),
        aliases=("duc",),
    ),
    _set(
        "google-compression",
        LINES.layout(r"google_sentence_compression_test1000\.jsonl", split="test"),
        Layout(r"comp-data\.eval\.json", read_google, inside_splits=("dev", "test")),
        Layout(r"sent-comp\.(?P<split>train)\d*\.json", read_google, many=True),
        aliases=("google-sentence-compression",),
    ),
    _set(
        "reuters",
        Layout(
            r"reuters21578_lead_headline\.jsonl",
            read_reuters,
            count_reuters,
            inside_splits=("train", "dev", "test"),
        ),
        aliases=("reuters21578",),
    ),
)
