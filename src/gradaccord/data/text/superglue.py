"""SuperGLUE (Wang et al. 2019): a folder of JSON lines for each task."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from gradaccord.data.examples import Candidate, Choices, Cloze, Coreference, Text, WordPair
from gradaccord.data.files.labels import Classes
from gradaccord.data.files.layouts import Count, Layout, Set, Wanted, count_lines
from gradaccord.data.files.text_files import File, at, field

FALSE_TRUE = ("false", "true")
ENTAILMENT = ("entailment", "not_entailment")
_WORD = re.compile(r"\S+")
_TEXT = re.compile(rb'"text"\s*:')  # a key: inside a JSON string the quote would be escaped


def _label(row: dict[str, Any], classes: Classes, file: File, line: int) -> int | None:
    return classes.number(row["label"], file, line) if row.get("label") is not None else None


def _id(row: dict[str, Any], wanted: Wanted, line: int) -> str:
    return str(row.get("idx", f"{wanted.split}-{line - 1}"))


def read_pair(file: File, wanted: Wanted, *, first: str, second: str) -> list[Text]:
    """Two texts and a class."""
    classes = Classes(wanted.labels)
    return [
        Text(
            str(field(row, first, file, line)).strip(),
            str(field(row, second, file, line)).strip(),
            _label(row, classes, file, line),
            _id(row, wanted, line),
        )
        for line, row in file.json_lines()
    ]


def read_copa(file: File, wanted: Wanted) -> list[Choices]:
    """COPA and XCOPA: which of two is the cause or the effect."""
    classes = Classes(("choice1", "choice2"))
    return [
        Choices(
            field(row, "premise", file, line),
            field(row, "question", file, line),
            (field(row, "choice1", file, line), field(row, "choice2", file, line)),
            _label(row, classes, file, line),
            _id(row, wanted, line),
        )
        for line, row in file.json_lines()
    ]


def read_multirc(file: File, wanted: Wanted) -> list[Candidate]:
    """MultiRC: every answer of every question is an example."""
    classes = Classes(FALSE_TRUE)
    examples = []
    for line, row in file.json_lines():
        text = field(row, "passage.text", file, line)
        for q, question in enumerate(field(row, "passage.questions", file, line)):
            group = f"{_id(row, wanted, line)}-{question.get('idx', q)}"
            for a, answer in enumerate(field(question, "answers", file, line)):
                examples.append(
                    Candidate(
                        text,
                        field(question, "question", file, line),
                        field(answer, "text", file, line),
                        _label(answer, classes, file, line),
                        group,
                        f"{group}-{answer.get('idx', a)}",
                    )
                )
    return examples


def read_record(file: File, wanted: Wanted) -> list[Cloze]:
    """ReCoRD: every query of a passage is an example; its ends of spans are inclusive."""
    examples = []
    for line, row in file.json_lines():
        text = field(row, "passage.text", file, line)
        spans = field(row, "passage.entities", file, line)
        entities = tuple(dict.fromkeys(text[e["start"] : e["end"] + 1] for e in spans))
        for q, query in enumerate(field(row, "qas", file, line)):
            asked = field(query, "query", file, line)
            if asked.count(Cloze.PLACEHOLDER) != 1:
                raise ValueError(
                    f"{at(file, line)}: a query has no {Cloze.PLACEHOLDER}: {asked[:60]!r}."
                )
            answers = dict.fromkeys(field(a, "text", file, line) for a in query.get("answers") or ())
            number = query.get("idx", q)
            name = f"{_id(row, wanted, line)}-{number}"
            examples.append(Cloze(text, asked, entities, tuple(answers), name))
    return examples


def read_wic(file: File, wanted: Wanted) -> list[WordPair]:
    """WiC: the word's characters are given."""
    classes = Classes(FALSE_TRUE)
    examples = []
    for line, row in file.json_lines():
        first, second, *ends = (
            field(row, name, file, line)
            for name in ("sentence1", "sentence2", "start1", "end1", "start2", "end2")
        )
        spans = (int(ends[0]), int(ends[1])), (int(ends[2]), int(ends[3]))
        for sentence, (start, end) in zip((first, second), spans, strict=True):
            if not 0 <= start < end <= len(sentence):
                raise ValueError(
                    f"{at(file, line)}: the word is at characters {start} to {end} of a sentence of "
                    f"{len(sentence)}."
                )
        label = _label(row, classes, file, line)
        examples.append(WordPair(first, second, *spans, label, _id(row, wanted, line)))
    return examples


def read_wsc(file: File, wanted: Wanted) -> list[Coreference]:
    """WSC: spans are given by the number of their first word and their text."""
    classes = Classes(FALSE_TRUE)
    examples = []
    for line, row in file.json_lines():
        text = field(row, "text", file, line)
        spans = [
            characters_of(
                text,
                field(row, f"target.span{n}_index", file, line),
                field(row, f"target.span{n}_text", file, line),
                at(file, line),
            )
            for n in (1, 2)
        ]
        label = _label(row, classes, file, line)
        examples.append(Coreference(text, spans[0], spans[1], label, _id(row, wanted, line)))
    return examples


def characters_of(text: str, word: int, span: str, where: str) -> tuple[int, int]:
    """Where a span stands that begins with (or in, or next to) the word of this number.

    The nearest occurrence, because quotes and apostrophes stick to words, and some numbers are off.
    Spaces match any space; if the span stands nowhere, its case is ignored, then its punctuation.
    """
    starts = [found.start() for found in _WORD.finditer(text)]
    wished = starts[word] if 0 <= word < len(starts) else len(text)
    exact = r"\s+".join(map(re.escape, span.split()))
    loose = r"[\W_]*".join(re.findall(r"[^\W_]+", span))
    for pattern, flags in ((exact, 0), (exact, re.IGNORECASE), (loose, re.IGNORECASE)):
        places = [found.span() for found in re.finditer(pattern, text, flags)] if pattern else []
        whole = [place for place in places if not _inside_word(text, *place)] or places
        if whole:
            return min(whole, key=lambda place: abs(place[0] - wished))
    raise ValueError(f"{where}: {span!r} does not occur in the text {text[:60]!r}.")


def _inside_word(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    return before.isalnum() or after.isalnum()


def count_answers(file: File, wanted: Wanted) -> int:
    """MultiRC's answers: each has a text, and so has each passage."""
    return len(_TEXT.findall(file.content())) - count_lines(file, wanted)


def _set(
    folder: str,
    kind: str,
    read: Callable[[File, Wanted], list[Any]],
    labels: tuple[str, ...] = FALSE_TRUE,
    *,
    count: Count | None = count_lines,
    **more: Any,
) -> Set:
    layout = Layout(rf"{folder}/(?P<split>train|val|dev|test)\.jsonl", read, count)
    return Set(folder.lower(), kind, (layout,), labels, **more)


def _diagnostic(folder: str, first: str, second: str) -> Set:
    reader = partial(read_pair, first=first, second=second)
    layout = Layout(rf"{folder}/{folder}\.jsonl", reader, count_lines, split="test")
    name = folder.lower().replace("-", "")
    options = {"pair": "cross"}
    return Set(
        name, "classification", (layout,), ENTAILMENT, options=options, aliases=(folder.lower(),)
    )


_nli = partial(read_pair, first="premise", second="hypothesis")
_CROSS: dict[str, Any] = {"options": {"pair": "cross"}}

SETS = (
    _set("BoolQ", "classification", partial(read_pair, first="question", second="passage"), **_CROSS),
    _set("CB", "classification", _nli, ("entailment", "contradiction", "neutral"), **_CROSS),
    _set("COPA", "multiple_choice", read_copa, ()),
    _set("MultiRC", "multi_answer", read_multirc, (), count=count_answers),
    _set("ReCoRD", "cloze", read_record, (), count=None),
    _set("RTE", "classification", _nli, ENTAILMENT, **_CROSS),
    _set("WiC", "word_in_context", read_wic, ()),
    _set("WSC", "coreference", read_wsc, ()),
    _diagnostic("AX-b", "sentence1", "sentence2"),
    _diagnostic("AX-g", "premise", "hypothesis"),
)
