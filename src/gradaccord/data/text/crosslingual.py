"""XNLI (Conneau et al. 2018) and XCOPA (Ponti et al. 2020): one English set in many languages."""

from __future__ import annotations

from functools import partial

from gradaccord.data.examples import Text
from gradaccord.data.files.labels import Classes
from gradaccord.data.files.layouts import Layout, Set, Wanted, count_lines
from gradaccord.data.files.text_files import File, at
from gradaccord.data.text.glue import NLI
from gradaccord.data.text.superglue import read_copa

XNLI = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
# The machine-translated train files write one class otherwise.
SPELLINGS = {"contradictory": "contradiction"}


def read_plain(file: File, wanted: Wanted, *, header: bool = False) -> list[Text]:
    """Premise, hypothesis and label (test files may lack it), one pair to a line."""
    numbers = Classes(wanted.labels, SPELLINGS)
    known = numbers.numbers
    examples: list[Text] = []
    labelled = wanted.split != "test"
    for number, line in enumerate(file.lines(), start=1):
        if header and number == 1:
            continue
        cells = line.split("\t")
        if len(cells) != 3 and (labelled or len(cells) != 2):
            raise ValueError(
                f"{at(file, number)}: {len(cells)} columns where premise, hypothesis and label are "
                "expected, with one tab between."
            )
        label: int | None = None
        if len(cells) == 3:
            label = known[cells[2]] if cells[2] in known else numbers.number(cells[2], file, number)
        id = f"{wanted.split}-{len(examples)}"
        examples.append(Text(cells[0].strip(), cells[1].strip(), label, id))
    return examples


def read_published(file: File, wanted: Wanted) -> list[Text]:
    """One language out of `xnli.dev.tsv` or `xnli.test.tsv`, which hold all fifteen."""
    classes = Classes(wanted.labels, SPELLINGS)
    lines = file.lines()
    header = lines[0].split("\t")
    names = ("gold_label", "sentence1", "sentence2")
    for name in ("language", *names):
        if name not in header:
            raise ValueError(
                f"{at(file, 1)}: there is no column {name!r}; the columns are: {', '.join(header)}."
            )
    label, first, second = (header.index(name) for name in names)
    mark, column = f"{wanted.language}\t", header.index("language")
    examples: list[Text] = []
    for number, line in enumerate(lines[1:], start=2):
        if column == 0 and not line.startswith(mark):
            continue  # most lines are of other languages
        cells = line.split("\t")
        if len(cells) != len(header):
            raise ValueError(
                f"{at(file, number)}: {len(cells)} columns where line 1 has {len(header)}."
            )
        if cells[column] == wanted.language:
            target = classes.number(cells[label], file, number)
            id = f"{wanted.split}-{len(examples)}"
            examples.append(Text(cells[first].strip(), cells[second].strip(), target, id))
    return examples


SETS = (
    Set(
        "xnli",
        "classification",
        (
            Layout(
                r"xnli/(?P<split>train|dev|test)-(?P<language>[a-z]{2})\.tsv", read_plain, count_lines
            ),
            Layout(r"xnli\.(?P<split>dev|test)\.tsv", read_published, inside_languages=XNLI),
            Layout(
                r"multinli\.(?P<split>train)\.(?P<language>[a-z]{2})\.tsv",
                partial(read_plain, header=True),
            ),
        ),
        NLI,
        languages=True,
        options={"pair": "cross"},
    ),
    Set(
        "xcopa",
        "multiple_choice",
        (Layout(r"(?P<split>val|test)\.(?P<language>[a-z]{2})\.jsonl", read_copa, count_lines),),
        languages=True,
    ),
)
