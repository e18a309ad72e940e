"""Files of data sets written for tests: tables, JSON lines, SQuAD's JSON, images; and reading them."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

from gradaccord import data
from gradaccord.data.examples import (
    Candidate,
    Choices,
    Cloze,
    Coreference,
    Document,
    Line,
    Question,
    Tagged,
    WordPair,
)


def write(path: Path, rows: list[dict]) -> Path:
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    names = [*rows[0]]
    if ending == "jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    elif ending == "json":
        text = json.dumps(rows, indent=1)
    elif ending == "tsv":
        text = "\n".join("\t".join(map(str, row)) for row in [names, *(r.values() for r in rows)])
    elif ending == "csv":
        quoted = [[str(cell).replace('"', '""') for cell in row.values()] for row in rows]
        text = "\r\n".join([",".join(names), *(",".join(f'"{c}"' for c in row) for row in quoted)])
    else:
        from pyarrow import Table, parquet

        parquet.write_table(Table.from_pylist(rows), path)
        return path
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


KIND_ROWS = {
    "multiple_choice": (
        {"premise": "p", "question": "cause", "choice1": "a", "choice2": "b", "label": 1, "id": "i"},
        {},
        Choices("p", "cause", ("a", "b"), 1, "i"),
    ),
    "multi_answer": (
        {"passage": "p", "question": "q", "answer": "a", "label": True, "group": "g", "id": "i"},
        {},
        Candidate("p", "q", "a", 1, "g", "i"),
    ),
    "cloze": (
        {
            "passage": {"text": "p"},
            "query": "@placeholder x",
            "entities": ["A", "B"],
            "answers": ["A"],
            "id": "i",
        },
        {"passage": "passage.text"},
        Cloze("p", "@placeholder x", ("A", "B"), ("A",), "i"),
    ),
    "word_in_context": (
        {
            "first": "a bank",
            "second": "banks",
            "s": 2,
            "e": 6,
            "second_span": [0, 5],
            "label": 0,
            "id": "i",
        },
        {"first_span": "s,e"},
        WordPair("a bank", "banks", (2, 6), (0, 5), 0, "i"),
    ),
    "coreference": (
        {"text": "Ann, she", "noun_span": [0, 3], "pronoun_span": [5, 8], "label": 1, "id": "i"},
        {},
        Coreference("Ann, she", (0, 3), (5, 8), 1, "i"),
    ),
    "question_answering": (
        {
            "question": "q",
            "context": "an Ann",
            "answers": {"text": ["Ann"], "answer_start": [3]},
            "id": "i",
        },
        {},
        Question("q", "an Ann", ("Ann",), (3,), "en", "i"),
    ),
    "tagging": (
        {"tokens": ["in", "Ulm"], "ner_tags": ["O", "B-LOC"], "id": "i"},
        {},
        Tagged(("in", "Ulm"), ("O", "B-LOC"), "i"),
    ),
    "summarization": (
        {"document": "long", "summary": "short", "id": "i"},
        {},
        Document("long", ("short",), "i"),
    ),
    "masked_lm": ({"text": "line", "id": "i"}, {}, Line("line", "i")),
}


def refused(name: str, folder: Path, **options: object) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        data.load(name, folder, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


def put(folder: Path, path: str, content: str | bytes) -> Path:
    """Write a file: bytes as they are, text gzipped if the name ends so."""
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = gzip.compress(content.encode()) if path.endswith(".gz") else content.encode()
    place.write_bytes(content)
    return place


def tsv(*rows: tuple[object, ...]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def jsonl(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def squad(*asked: tuple[str, str, list[tuple[str, int]]], context: str, **more: object) -> str:
    qas = [
        {
            "id": id,
            "question": question,
            "answers": [{"text": t, "answer_start": s} for t, s in answers],
            **more,
        }
        for id, question, answers in asked
    ]
    return json.dumps({"version": "1", "data": [{"paragraphs": [{"context": context, "qas": qas}]}]})


def only(name: str, folder: Path, split: str = "train", **options: object):
    """The first example of a split, after the listing agreed with the reader."""
    dataset = data.load(name, folder, **options)
    listed = {found.name: found for found in data.find(folder)}[dataset.name]
    assert dict(listed.counts) == dataset.counts
    assert not listed.problem
    return dataset.split(split)[0]


def picture(value: int, size: int = 6, mode: str = "RGB") -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new(mode, (size, size), value if mode == "L" else (value, 2 * value, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


def two_classes() -> dict[str, bytes]:
    return {f"set/{c}/{i}.png": picture(10 * (1 + "ab".index(c)) + i) for c in "ab" for i in range(3)}
