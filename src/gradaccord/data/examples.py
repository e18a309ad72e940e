"""The shapes that examples have, one for each kind of task, whatever file they were read from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence, or a pair of them, with a class number or a target value (None: not labelled)."""

    first: str
    second: str | None = None
    label: int | float | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Choices:
    """A premise, a question about it, and the choices of which one is right (COPA, XCOPA)."""

    premise: str
    question: str
    choices: tuple[str, ...]
    label: int | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer that is right or wrong for a question about a passage (MultiRC)."""

    passage: str
    question: str
    answer: str
    label: int | None = None
    group: str = ""  # the question that the answer belongs to
    id: str = ""


@dataclass(frozen=True, slots=True)
class Cloze:
    """A query with a gap that one of the passage's entities fills (ReCoRD)."""

    passage: str
    query: str  # holds PLACEHOLDER once
    entities: tuple[str, ...]
    answers: tuple[str, ...] = ()  # all that are right; empty: not labelled
    id: str = ""

    PLACEHOLDER = "@placeholder"


@dataclass(frozen=True, slots=True)
class WordPair:
    """Two sentences with a word each, marked by its characters: the same sense or not (WiC)."""

    first: str
    second: str
    first_span: tuple[int, int]
    second_span: tuple[int, int]
    label: int | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Coreference:
    """A text with a noun phrase and a pronoun: whether they mean the same (WSC)."""

    text: str
    noun_span: tuple[int, int]
    pronoun_span: tuple[int, int]
    label: int | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a context; its answers are spans of it, none if it cannot be answered."""

    question: str
    context: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()  # of each answer, in characters of the context
    language: str = "en"
    id: str = ""


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence in words, with an IOB2 tag each ("B-PER"); no tags: not labelled."""

    words: tuple[str, ...]
    tags: tuple[str, ...] = ()
    id: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A text and the summaries that people wrote of it."""

    text: str
    summaries: tuple[str, ...] = ()
    id: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Plain text, to be modelled as such."""

    text: str
    id: str = ""


Example = (
    Text | Choices | Candidate | Cloze | WordPair | Coreference | Question | Tagged | Document | Line
)
