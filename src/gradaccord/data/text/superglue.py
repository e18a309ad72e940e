"""SuperGLUE (Wang et al. 2019): a folder of JSON lines for each task."""

from __future__ import annotations

import re
from typing import Any

from gradaccord.data.examples import Candidate, Cloze, Coreference
from gradaccord.data.files.labels import Classes
from gradaccord.data.files.layouts import Count, Layout, PublishedSet, Read, Wanted, count_lines
from gradaccord.data.files.text_files import File, at, field
from gradaccord.data.text.glue import ENTAILMENT
from gradaccord.data.text.json_lines import JsonLines, id_of

FALSE_TRUE = ("false", "true")
TRUTH = Classes(FALSE_TRUE)
CROSS = {"pair": "cross"}

NLI = JsonLines("classification", {"first": "premise", "second": "hypothesis"})
BOOLQ = JsonLines("classification", {"first": "question", "second": "passage"})
AX_B = JsonLines("classification", {"first": "sentence1", "second": "sentence2"})
COPA = JsonLines("multiple_choice", {"choices": "choice1,choice2"})
WIC = JsonLines("word_in_context", {"first": "sentence1", "second": "sentence2"})

_WORD = re.compile(r"\S+")
_TEXT = re.compile(rb'"text"\s*:')  # a key: inside a JSON string the quote would be escaped


def _label(row: dict[str, Any], file: File, line: int) -> int | None:
    return TRUTH.number(row["label"], file, line) if row.get("label") is not None else None


def read_multirc(file: File, wanted: Wanted) -> list[Candidate]:
    """MultiRC: every answer of every question is an example."""
    examples = []
    for line, row in file.json_lines():
        text = field(row, "passage.text", file, line, str)
        for q, question in enumerate(field(row, "passage.questions", file, line, list)):
            group = f"{id_of(row, wanted, line)}-{question.get('idx', q)}"
            for a, answer in enumerate(field(question, "answers", file, line, list)):
                examples.append(
                    Candidate(
                        text,
                        field(question, "question", file, line, str),
                        field(answer, "text", file, line, str),
                        _label(answer, file, line),
                        group,
                        f"{group}-{answer.get('idx', a)}",
                    )
                )
    return examples


def read_record(file: File, wanted: Wanted) -> list[Cloze]:
    """ReCoRD: every query of a passage is an example; its ends of spans are inclusive."""
    examples = []
    for line, row in file.json_lines():
        text = field(row, "passage.text", file, line, str)
        spans = field(row, "passage.entities", file, line, list)
        entities = tuple(dict.fromkeys(_entity(text, span, file, line) for span in spans))
        for q, query in enumerate(field(row, "qas", file, line, list)):
            asked = field(query, "query", file, line, str)
            if asked.count(Cloze.PLACEHOLDER) != 1:
                raise ValueError(
                    f"{at(file, line)}: a query has no {Cloze.PLACEHOLDER}: {asked[:60]!r}."
                )
            answers = dict.fromkeys(
                field(a, "text", file, line, str) for a in query.get("answers") or ()
            )
            number = query.get("idx", q)
            name = f"{id_of(row, wanted, line)}-{number}"
            examples.append(Cloze(text, asked, entities, tuple(answers), name))
    return examples


def _entity(text: str, span: Any, file: File, line: int) -> str:
    start, end = (field(span, name, file, line, int) for name in ("start", "end"))
    return text[start : end + 1]


def read_wsc(file: File, wanted: Wanted) -> list[Coreference]:
    """WSC: spans are given by the number of their first word and their text."""
    examples = []
    for line, row in file.json_lines():
        text = field(row, "text", file, line, str)
        spans = [
            characters_of(
                text,
                field(row, f"target.span{n}_index", file, line, int),
                field(row, f"target.span{n}_text", file, line, str),
                at(file, line),
            )
            for n in (1, 2)
        ]
        label = _label(row, file, line)
        examples.append(Coreference(text, spans[0], spans[1], label, id_of(row, wanted, line)))
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
    read: Read,
    labels: tuple[str, ...] = (),
    *,
    count: Count | None = count_lines,
) -> PublishedSet:
    layout = Layout(rf"{folder}/(?P<split>train|val|dev|test)\.jsonl", read, count)
    options = CROSS if kind == "classification" else {}
    return PublishedSet(folder.lower(), kind, (layout,), labels, options=options)


def _diagnostic(folder: str, read: JsonLines) -> PublishedSet:
    name, layout = folder.lower(), read.layout(rf"{folder}/{folder}\.jsonl", split="test")
    return PublishedSet(
        name.replace("-", ""), read.kind, (layout,), ENTAILMENT, options=CROSS, aliases=(name,)
    )


SETS = (
    _set("BoolQ", "classification", BOOLQ, FALSE_TRUE),
    _set("CB", "classification", NLI, ("entailment", "contradiction", "neutral")),
    _set("COPA", "multiple_choice", COPA),
    _set("MultiRC", "multi_answer", read_multirc, count=count_answers),
    _set("ReCoRD", "cloze", read_record, count=None),
    _set("RTE", "classification", NLI, ENTAILMENT),
    _set("WiC", "word_in_context", WIC),
    _set("WSC", "coreference", read_wsc),
    _diagnostic("AX-b", AX_B),
    _diagnostic("AX-g", NLI),
)
