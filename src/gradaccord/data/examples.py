"""One class for each shape of example: fields, how a row becomes one, checks, what splits compare."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gradaccord.data.files.cells import Cells
from gradaccord.data.files.iob2 import checked

if TYPE_CHECKING:
    from typing_extensions import Self

# What the answer of an example is: a named class, a number, the number of a choice, true or false, or
# tags with named entity types; "" for texts, and where there is none.
Answer = Literal["class", "number", "choice", "truth", "types", ""]

# The kinds of task whose rows can be read from files; each example class enters its own.
EXAMPLES: dict[str, type[Example]] = {}


class Example:
    """Base class. Subclasses are frozen dataclasses, with an `id` and these class variables.

    kinds: the kinds of task that have such examples, and what their answer is.
    needed: the fields that every row must have.
    optional: those that it may have.
    targets: the fields that hold the answer; the first must be there in training.
    about: the texts that an example is about, which two splits must not share; cuts go by the first.
    pair: the two fields that an encoder reads as a pair; empty: it reads what the example is about.
    asks: the field that is shown before what the example is about; empty: no field.
    whole_files: formats of files that hold such examples, but not as rows.
    tells: optional fields that set options of the task if an example has them.
    usual: names that the column of a field usually has, whatever their case, after the field's own.
    signs: columns (one of each group) that show a Hugging Face data set to be of this kind.
    """

    __slots__ = ()
    kinds: ClassVar[Mapping[str, Answer]] = {}
    needed: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]]
    targets: ClassVar[tuple[str, ...]] = ("label",)
    about: ClassVar[tuple[str, ...]]
    pair: ClassVar[tuple[str, ...]] = ()
    asks: ClassVar[str] = ""
    whole_files: ClassVar[tuple[str, ...]] = ()
    tells: ClassVar[tuple[str, ...]] = ()
    usual: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "first": (
            *("sentence", "text", "sentence1", "premise", "question1", "question", "review"),
            *("content", "comment", "tweet", "utterance", "body", "description", "message"),
        ),
        "second": ("sentence2", "hypothesis", "question2", "passage"),
        "text": ("document", "article", "sentence"),
        "answers": ("answer",),
        "label": (
            *("labels", "gold_label", "score", "similarity", "is_duplicate", "class", "class index"),
            *("category", "sentiment", "intent", "rating", "stars", "polarity", "target"),
        ),
        "id": ("idx", "index", "guid", "uid"),
    }
    signs: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __init_subclass__(cls) -> None:
        EXAMPLES.update(dict.fromkeys(vars(cls).get("kinds", ()), cls))

    @classmethod
    def read(cls, cells: Cells) -> Self:
        """An example from one row's cells."""
        raise NotImplementedError

    @staticmethod
    def from_plain_text(text: str) -> Any:
        """The value of the only needed field, if a question is asked as plain text."""
        return text

    @classmethod
    def task_options(cls, filled: Collection[str]) -> dict[str, Any]:
        """The options of a task in which some examples have these fields of `tells`."""
        return {}

    @property
    def leak_key(self) -> str:
        """What the example is about: a text that training and evaluation data should not share."""
        fields = [getattr(self, name) for name in self.about]
        texts = ([field] if isinstance(field, str) else field or () for field in fields)
        return "\n".join(text for several in texts for text in several)

    @property
    def cut_key(self) -> Hashable:
        """Examples with the same key stay in one split when a split is cut."""
        key: Hashable = getattr(self, self.about[0])
        return key

    @property
    def group_key(self) -> Hashable | None:
        """Examples with the same key are scored together; None: each on its own."""
        return None

    def in_group(self, name: str) -> Self:
        """The same example in a group of this name, if it has a `group_key`."""
        return self

    @property
    def texts(self) -> tuple[str, str | None]:
        """The text or pair of texts that an encoder reads, whatever the task."""
        if not self.pair:
            return self.leak_key, None
        return getattr(self, self.pair[0]), getattr(self, self.pair[1])

    @property
    def shown(self) -> str:
        """One line to show beside an error."""
        question = self.asks and getattr(self, self.asks)
        return f"{question} | {self.leak_key}" if question else self.leak_key.replace("\n", " | ")

    @property
    def labelled(self) -> bool:
        """Whether the answer is known."""
        return not self.targets or getattr(self, self.targets[0]) not in (None, ())


def answer_of(kind: str) -> Answer:
    """What the answer of a kind's examples is; "" for a kind whose examples are no rows."""
    return EXAMPLES[kind].kinds[kind] if kind in EXAMPLES else ""


@dataclass(frozen=True, slots=True)
class Question(Example):
    """A question about a context; its answers are spans of the context, none if there is no answer."""

    question: str
    context: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()  # of each answer, in characters of the context
    language: str = "en"
    id: str = ""

    kinds = {"question_answering": ""}
    needed = ("question", "context")
    optional = ("answers", "starts", "language", "id")
    about = ("context",)
    pair = ("question", "context")
    targets = ("answers", "starts")
    asks = "question"
    whole_files = ("json",)
    usual = {**Example.usual, "starts": ("answer_starts", "answer_start")}
    signs = (("question",), ("context",))

    @classmethod
    def read(cls, cells: Cells) -> Self:
        question, context = cells.text("question").strip(), cells.text("context")
        texts, starts = cls._answers(cells)
        if not starts:
            starts = tuple(context.find(text) for text in texts)
        if len(starts) != len(texts):
            raise ValueError(f"{cells.where}: {len(texts)} answers and {len(starts)} starts.")
        found = cls(question, context, texts, starts, cells.language, cells.id)
        found.check_answers(cells.where)
        return found

    @staticmethod
    def _answers(cells: Cells) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Answers as a text, texts, SQuAD's objects, or the two lists of Hugging Face."""
        cell, starts = cells.values.get("answers"), cells.values.get("starts")
        if isinstance(cell, str) and cell.lstrip().startswith(("[", "{")):
            cell = cells.parsed(cell)
        if isinstance(cell, Mapping):
            cell, starts = cell.get("text", ()), cell.get("answer_start", ())
        if cell is None or cell == "":
            return (), ()
        several: list[Any] = [cell] if isinstance(cell, str) else cells.as_list(cell, "answers")
        if several and isinstance(several[0], Mapping):
            starts = [each.get("answer_start") for each in several]
            several = [each.get("text") for each in several]
        texts = cells.as_texts(several, "answers")
        if starts is None or starts == "":
            return texts, ()
        numbers = starts if isinstance(starts, list | tuple) else [starts]
        return texts, tuple(map(cells.whole, numbers))

    def check_answers(self, where: object) -> None:
        """An answer must stand in its context where the file says. where: how an error begins."""
        for text, start in zip(self.answers, self.starts, strict=True):
            if not text or self.context[start : start + len(text)] != text:
                there = self.context[max(start, 0) : max(start, 0) + len(text)]
                raise ValueError(
                    f"{where}, question {self.id!r}: the answer {text[:60]!r} is not at character "
                    f"{start} of the context, where {there[:60]!r} is."
                )


@dataclass(frozen=True, slots=True)
class Tagged(Example):
    """A sentence as words, each with an IOB2 tag ("B-PER"); no tags: not labelled."""

    words: tuple[str, ...]
    tags: tuple[str, ...] = ()
    id: str = ""

    kinds = {"tagging": "types"}
    needed = ("words",)
    optional = ("tags", "id")
    about = ("words",)
    targets = ("tags",)
    whole_files = ("conll", "text")
    usual = {**Example.usual, "words": ("tokens",), "tags": ("ner_tags", "labels")}
    signs = (("tokens", "words"), ("ner_tags", "tags"))

    @classmethod
    def read(cls, cells: Cells) -> Self:
        words, tags = cells.texts("words"), cells.texts("tags")
        if tags and len(tags) != len(words):
            raise ValueError(f"{cells.where}: {len(words)} words and {len(tags)} tags.")
        tags = tuple(checked(tags, cells.labels, cells.wanted, lambda _: cells.where))
        return cls(words, tags, cells.id)

    @staticmethod
    def from_plain_text(text: str) -> Any:
        return text.split()  # a text that begins with a bracket is no JSON list

    @property
    def leak_key(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Choices(Example):
    """A premise, a question about it, and choices, one of which is right (COPA, XCOPA)."""

    premise: str
    question: str
    choices: tuple[str, ...]
    label: int | None = None
    id: str = ""

    kinds = {"multiple_choice": "choice"}
    needed = ("premise", "choices")
    optional = ("question", "label", "id")
    about = ("premise", "question", "choices")
    asks = "question"
    usual = {**Example.usual, "choices": ("choice1,choice2", "endings")}
    signs = (("premise",), ("choice1", "choices"))

    @classmethod
    def read(cls, cells: Cells) -> Self:
        premise, question = cells.text("premise").strip(), cells.optional_text("question") or ""
        choices, label = tuple(text.strip() for text in cells.texts("choices")), cells.label
        if label is not None and not 0 <= label < len(choices):
            raise ValueError(
                f"{cells.where}: the label {label} is not one of 0..{len(choices) - 1}, the choices."
            )
        return cls(premise, question.strip(), choices, label, cells.id)


@dataclass(frozen=True, slots=True)
class Document(Example):
    """A text and the summaries that people wrote for it."""

    text: str
    summaries: tuple[str, ...] = ()
    id: str = ""

    kinds = {"summarization": ""}
    needed = ("text",)
    optional = ("summaries", "id")
    about = ("text",)
    targets = ("summaries",)
    usual = {**Example.usual, "summaries": ("summary", "highlights", "headline", "title")}
    signs = (
        ("document", "article", "text"),
        ("summary", "summaries", "highlights"),
    )

    @classmethod
    def read(cls, cells: Cells) -> Self:
        summaries = cells.texts("summaries", one_text=True)
        return cls(cells.text("text").strip(), tuple(text.strip() for text in summaries), cells.id)


@dataclass(frozen=True, slots=True)
class Text(Example):
    """A sentence, or a pair of them, with a class number or a target value (None: not labelled)."""

    first: str
    second: str | None = None
    label: int | float | None = None
    id: str = ""

    kinds = {"classification": "class", "regression": "number"}
    needed = ("first",)
    optional = ("second", "label", "id")
    about = pair = ("first", "second")
    tells = ("second",)
    signs = (("label",),)

    @classmethod
    def read(cls, cells: Cells) -> Self:
        first, second = cells.text("first").strip(), cells.optional_text("second")
        return cls(first, None if second is None else second.strip(), cells.label, cells.id)

    @classmethod
    def task_options(cls, filled: Collection[str]) -> dict[str, Any]:
        return {"pair": "cross" if "second" in filled else None}


@dataclass(frozen=True, slots=True)
class Line(Example):
    """Plain text, for language modelling."""

    text: str
    id: str = ""

    kinds = {"masked_lm": ""}
    needed = ("text",)
    optional = ("id",)
    about = ("text",)
    targets = ()
    signs = (("text",),)

    @classmethod
    def read(cls, cells: Cells) -> Self:
        return cls(cells.text("text").strip(), cells.id)

    @property
    def cut_key(self) -> Hashable:
        return self.id or self.text


@dataclass(frozen=True, slots=True)
class Candidate(Example):
    """An answer that is right or wrong for a question about a passage (MultiRC)."""

    passage: str
    question: str
    answer: str
    label: int | None = None
    group: str = ""  # the question that the answer belongs to
    id: str = ""

    kinds = {"multi_answer": "truth"}
    needed = ("passage", "question", "answer")
    optional = ("label", "group", "id")
    about = ("passage",)
    pair = ("question", "passage")
    asks = "question"

    @classmethod
    def read(cls, cells: Cells) -> Self:
        passage, question, answer = (cells.text(field) for field in cls.needed)
        given = cells.values.get("group")
        group = "" if given is None else str(given)
        return cls(passage, question, answer, cells.label, group, cells.id)

    @property
    def group_key(self) -> Hashable:
        return self.group or (self.passage, self.question)

    def in_group(self, name: str) -> Self:
        return replace(self, group=name)


@dataclass(frozen=True, slots=True)
class Cloze(Example):
    """A query with a gap that one of the passage's entities fills (ReCoRD)."""

    passage: str
    query: str  # holds PLACEHOLDER once
    entities: tuple[str, ...]
    answers: tuple[str, ...] = ()  # all that are right; empty: not labelled
    id: str = ""

    PLACEHOLDER = "@placeholder"
    kinds = {"cloze": ""}
    needed = ("passage", "query", "entities")
    optional = ("answers", "id")
    about = ("passage",)
    pair = ("query", "passage")
    asks = "query"
    targets = ("answers",)

    @classmethod
    def read(cls, cells: Cells) -> Self:
        passage, query = cells.text("passage"), cells.text("query")
        if cls.PLACEHOLDER not in query:
            raise ValueError(f"{cells.where}: the query has no {cls.PLACEHOLDER}.")
        return cls(passage, query, cells.texts("entities"), cells.texts("answers"), cells.id)


@dataclass(frozen=True, slots=True)
class WordPair(Example):
    """Two sentences with a marked word in each: whether both words have the same sense (WiC)."""

    first: str
    second: str
    first_span: tuple[int, int]
    second_span: tuple[int, int]
    label: int | None = None
    id: str = ""

    kinds = {"word_in_context": "truth"}
    needed = ("first", "second", "first_span", "second_span")
    optional = ("label", "id")
    about = pair = ("first", "second")
    usual = {**Example.usual, "first_span": ("start1,end1",), "second_span": ("start2,end2",)}

    @classmethod
    def read(cls, cells: Cells) -> Self:
        first, second = cells.text("first"), cells.text("second")
        spans = cells.span("first_span", first), cells.span("second_span", second)
        return cls(first, second, *spans, cells.label, cells.id)


@dataclass(frozen=True, slots=True)
class Coreference(Example):
    """A text with a noun phrase and a pronoun: whether they mean the same (WSC)."""

    text: str
    noun_span: tuple[int, int]
    pronoun_span: tuple[int, int]
    label: int | None = None
    id: str = ""

    kinds = {"coreference": "truth"}
    needed = ("text", "noun_span", "pronoun_span")
    optional = ("label", "id")
    about = ("text",)

    @classmethod
    def read(cls, cells: Cells) -> Self:
        text = cells.text("text")
        spans = cells.span("noun_span", text), cells.span("pronoun_span", text)
        return cls(text, *spans, cells.label, cells.id)

    @property
    def leak_key(self) -> str:
        return f"{self.text}\n{self.noun_span}{self.pronoun_span}"
