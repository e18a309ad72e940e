"""The files of Stanford's CS224N project: SST (five classes), Quora, STS, counterfactual IMDb."""

from __future__ import annotations

from typing import Any

from gradaccord.data.examples import Text
from gradaccord.data.files.labels import Classes
from gradaccord.data.files.layouts import Layout, PublishedSet, Wanted, count_lines
from gradaccord.data.files.text_files import File, at
from gradaccord.data.text.tsv import Tsv

SST = ("negative", "somewhat negative", "neutral", "somewhat positive", "positive")
QUORA = ("not_duplicate", "duplicate")
CFIMDB = ("negative", "positive")
BARS = " ||| "

SENTENCES = Tsv("sentence", label="sentiment", id="id", quoted=True)
# The students' test files have no labels, and a header that may be one name short.
STUDENTS_SENTENCES = Tsv(-1, label=None, id=-2, quoted=True)
STUDENTS_PAIRS = Tsv(-2, -1, label=None, id=-3, quoted=True)


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
    named = [] if beside is None else STUDENTS_SENTENCES(beside, wanted)
    if [e.first for e in named] != [e.first for e in examples]:
        return examples
    return [Text(e.first, None, e.label, n.id) for e, n in zip(examples, named, strict=True)]


def _sentences(name: str, labels: tuple[str, ...], *first: Layout, **more: Any) -> PublishedSet:
    layouts = (
        *first,
        SENTENCES.layout(rf"ids-{name}-(?P<split>train|dev)\.csv"),
        STUDENTS_SENTENCES.layout(rf"ids-{name}-(?P<split>test)-student\.csv"),
    )
    return PublishedSet(name, "classification", layouts, labels, **more)


def _pairs(name: str, kind: str, label: str, **more: Any) -> PublishedSet:
    table = Tsv("sentence1", "sentence2", label, "id", quoted=True, gaps=True)
    layouts = (
        table.layout(rf"{name}-(?P<split>train|dev)\.csv"),
        table.layout(rf"{name}-(?P<split>train)-subset\.csv"),
        STUDENTS_PAIRS.layout(rf"{name}-(?P<split>test)-student\.csv"),
    )
    return PublishedSet(name, kind, layouts, options={"pair": "cross"}, **more)


SETS = (
    _sentences(
        "sst",
        SST,
        Layout(r"sst-(?P<split>test)\.txt", read_bars, count_lines),
        SENTENCES.layout(r"ids-sst-(?P<split>train|dev)\.csv"),
        Layout(r"sst-(?P<split>train|dev)\.txt", read_bars, count_lines),
        aliases=("sst5", "sst-5"),
    ),
    _pairs("quora", "classification", "is_duplicate", labels=QUORA, aliases=("paraphrase",)),
    _pairs("sts", "regression", "similarity"),
    _sentences("cfimdb", CFIMDB),
)
