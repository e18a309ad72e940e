"""The files of Stanford's CS224N project: SST (five classes), Quora, STS, counterfactual IMDb."""

from __future__ import annotations

from functools import partial
from typing import Any

from gradaccord.data.examples import Text
from gradaccord.data.files.labels import Classes, value
from gradaccord.data.files.layouts import Layout, Set, Wanted, count_lines, count_rows
from gradaccord.data.files.tables import rows
from gradaccord.data.files.text_files import File, at

SST = ("negative", "somewhat negative", "neutral", "somewhat positive", "positive")
QUORA = ("not_duplicate", "duplicate")
CFIMDB = ("negative", "positive")
BARS = " ||| "


def unquoted(cell: str) -> str:
    """A cell that a CSV writer quoted, as it was before; the files are read without quoting."""
    inner = cell[1:-1]
    if len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"').strip()
    return cell.strip()


def read_sentences(file: File, wanted: Wanted) -> list[Text]:
    """Rows of id, sentence and sentiment."""
    classes = Classes(wanted.labels)
    return [
        Text(unquoted(sentence or ""), None, classes.number(label, file, line), id or "")
        for line, (id, sentence, label) in rows(file, ("id", "sentence", "sentiment"))
    ]


def read_pairs(file: File, wanted: Wanted, *, label: str) -> list[Text]:
    """Rows of id, two sentences and a class or a value.

    Quora's files have a few rows without a class: left out of train, unlabelled elsewhere, counted.
    """
    classes = Classes(wanted.labels)
    examples = []
    for line, (id, first, second, cell) in rows(file, ("id", "sentence1", "sentence2", label)):
        target: float | int | None = None
        if not (cell or "").strip():
            wanted.note("pairs without a label")
            if wanted.split == "train":
                continue
        elif wanted.labels:
            target = classes.number(cell, file, line)
        else:
            target = value(cell, file, line)
        examples.append(Text(unquoted(first or ""), unquoted(second or ""), target, id or ""))
    return examples


def count_pairs(file: File, wanted: Wanted) -> int:
    """Rows, without those that `read_pairs` leaves out."""
    content = file.content()
    unlabelled = content.count(b"\t\n") + content.count(b"\t\r\n") + content.endswith(b"\t")
    return count_rows(file, wanted) - (unlabelled if wanted.split == "train" else 0)


def read_unlabelled(file: File, wanted: Wanted, *, sentences: int) -> list[Text]:
    """Students' test files: id and sentences are the last columns (the header is one name short)."""
    examples = []
    for number, line in enumerate(file.lines()[1:], start=2):
        cells = line.split("\t")
        if len(cells) < 1 + sentences:
            raise ValueError(
                f"{at(file, number)}: {len(cells)} columns, of which {1 + sentences} are read."
            )
        id, *texts = cells[-1 - sentences :]
        texts = [unquoted(text) for text in texts]
        examples.append(Text(texts[0], texts[1] if sentences == 2 else None, None, id))
    return examples


def read_bars(file: File, wanted: Wanted) -> list[Text]:
    """Lines of class and sentence with three bars between; ids from the students' file beside it."""
    classes = Classes(wanted.labels)
    examples = []
    for number, line in enumerate(file.lines(), start=1):
        label, bars, sentence = line.partition(BARS)
        if not bars:
            raise ValueError(f"{at(file, number)}: there is no {BARS!r} between class and sentence.")
        id = f"{wanted.split}-{number - 1}"
        examples.append(Text(sentence.strip(), None, classes.number(label, file, number), id))
    beside = file.sibling("ids-sst-test-student.csv") if wanted.split == "test" else None
    if beside is None:
        return examples
    named = read_unlabelled(beside, wanted, sentences=1)
    if [e.first for e in named] != [e.first for e in examples]:
        return examples
    return [Text(e.first, None, e.label, n.id) for e, n in zip(examples, named, strict=True)]


def _sentences(name: str, labels: tuple[str, ...], *first: Layout, **more: Any) -> Set:
    layouts = (
        *first,
        Layout(rf"ids-{name}-(?P<split>train|dev)\.csv", read_sentences, count_rows),
        Layout(
            rf"ids-{name}-(?P<split>test)-student\.csv",
            partial(read_unlabelled, sentences=1),
            count_rows,
        ),
    )
    return Set(name, "classification", layouts, labels, **more)


def _pairs(name: str, kind: str, label: str, **more: Any) -> Set:
    layouts = (
        Layout(rf"{name}-(?P<split>train|dev)\.csv", partial(read_pairs, label=label), count_pairs),
        Layout(rf"{name}-(?P<split>train)-subset\.csv", partial(read_pairs, label=label), count_pairs),
        Layout(
            rf"{name}-(?P<split>test)-student\.csv", partial(read_unlabelled, sentences=2), count_rows
        ),
    )
    return Set(name, kind, layouts, options={"pair": "cross"}, **more)


SETS = (
    _sentences(
        "sst",
        SST,
        Layout(r"sst-(?P<split>test)\.txt", read_bars, count_lines),
        Layout(r"ids-sst-(?P<split>train|dev)\.csv", read_sentences, count_rows),
        Layout(r"sst-(?P<split>train|dev)\.txt", read_bars, count_lines),
        aliases=("sst5", "sst-5"),
    ),
    _pairs("quora", "classification", "is_duplicate", labels=QUORA, aliases=("paraphrase",)),
    _pairs("sts", "regression", "similarity"),
    _sentences("cfimdb", CFIMDB),
)
