"""GLUE (Wang et al. 2018): a folder of tab-separated files for each task, quotes not special."""

from __future__ import annotations

from functools import partial
from typing import Any

from gradaccord.data.examples import Text
from gradaccord.data.files.labels import Classes, value
from gradaccord.data.files.layouts import Layout, Set, Wanted, count_lines, count_rows
from gradaccord.data.files.tables import rows
from gradaccord.data.files.text_files import File

ENTAILMENT = ("entailment", "not_entailment")
NLI = ("entailment", "neutral", "contradiction")
SPLIT = r"(?P<split>train|dev|test)"


def read(
    file: File,
    wanted: Wanted,
    *,
    first: str,
    second: str | None = None,
    label: str = "label",
    id: str = "index",
    skip_faults: bool = False,
) -> list[Text]:
    """A file with a header; a test file has no labels."""
    classes = Classes(wanted.labels)
    columns = (id, label, first, *((second,) if second else ()))
    faults: list[int] | None = [] if skip_faults else None
    optional = (id, label) if wanted.split == "test" else (id,)
    examples: list[Text] = []
    for line, cells in rows(file, columns, optional=optional, faults=faults):
        number, written, *texts = cells
        target: int | float | None = None
        if written is not None:
            target = (
                classes.number(written, file, line) if wanted.labels else value(written, file, line)
            )
        sentences = [(text or "").strip() for text in texts]
        name = number if number is not None else f"{wanted.split}-{len(examples)}"
        examples.append(Text(sentences[0], sentences[1] if second else None, target, name))
    wanted.note("malformed lines left out", len(faults or ()))
    return examples


def read_cola(file: File, wanted: Wanted) -> list[Text]:
    """CoLA's train and dev files have no header; the third column is the author's star."""
    classes = Classes(wanted.labels)
    return [
        Text(
            (sentence or "").strip(),
            None,
            classes.number(label, file, line),
            f"{wanted.split}-{line - 1}",
        )
        for line, (label, sentence) in rows(file, (1, 3), header=False)
    ]


def _set(
    name: str,
    folder: str,
    labels: tuple[str, ...],
    *layouts: Layout,
    kind: str = "classification",
    files: str = rf"{SPLIT}\.tsv",
    names: dict[str, str] | None = None,
    options: dict[str, Any] | None = None,
    aliases: tuple[str, ...] = (),
    **columns: Any,
) -> Set:
    counted = None if columns.get("skip_faults") else count_rows
    main = Layout(rf"{folder}/{files}", partial(read, **columns), counted, names=names or {})
    options = ({"pair": "cross"} if "second" in columns else {}) | (options or {})
    return Set(name, kind, (*layouts, main), labels, options=options, aliases=aliases)


PAIR: dict[str, Any] = {"first": "sentence1", "second": "sentence2"}
MRPC: dict[str, Any] = {"first": "#1 String", "second": "#2 String", "label": "Quality"}
MNLI_NAMES = {"dev_matched": "dev", "test_matched": "test"}
MISMATCHED_NAMES = {"dev_mismatched": "dev", "test_mismatched": "test"}
F1 = {"average": "binary"}

SETS = (
    _set(
        "cola",
        "CoLA",
        ("unacceptable", "acceptable"),
        Layout(r"CoLA/(?P<split>train|dev)\.tsv", read_cola, count_lines),
        first="sentence",
    ),
    _set("sst2", "SST-2", ("negative", "positive"), first="sentence", aliases=("sst-2",)),
    _set(
        "mrpc",
        "MRPC",
        ("not_equivalent", "equivalent"),
        Layout(r"MRPC/(?P<split>train|dev)\.tsv", partial(read, **MRPC), count_rows),
        Layout(r"msr_paraphrase_(?P<split>train|test)\.txt", partial(read, **MRPC), count_rows),
        options=F1,
        **MRPC,
    ),
    _set("sts-b", "STS-B", (), kind="regression", label="score", aliases=("stsb",), **PAIR),
    _set(
        "qqp",
        "QQP",
        ("not_duplicate", "duplicate"),
        first="question1",
        second="question2",
        label="is_duplicate",
        id="id",
        skip_faults=True,
        options=F1,
    ),
    _set(
        "mnli",
        "MNLI",
        NLI,
        files=r"(?P<split>train|dev_matched|test_matched)\.tsv",
        names=MNLI_NAMES,
        label="gold_label",
        **PAIR,
    ),
    _set(
        "mnli-mm",
        "MNLI",
        NLI,
        files=r"(?P<split>train|dev_mismatched|test_mismatched)\.tsv",
        names=MISMATCHED_NAMES,
        label="gold_label",
        **PAIR,
    ),
    _set("qnli", "QNLI", ENTAILMENT, first="question", second="sentence"),
    _set("glue-rte", "RTE", ENTAILMENT, **PAIR),
    _set("wnli", "WNLI", ("not_entailment", "entailment"), **PAIR),
)
