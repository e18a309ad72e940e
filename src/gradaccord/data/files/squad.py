"""The JSON of SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), which XQuAD, MLQA and TyDiQA share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from gradaccord.data.examples import Question
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.text_files import TYPES, File

T = TypeVar("T")
# Inside a JSON string the closing quote would have a backslash before it, so this finds keys alone.
_QUESTION = re.compile(rb'"question"\s*:')


def read(file: File, wanted: Wanted) -> list[Question]:
    """All questions; those marked impossible have no answers.

    XTREME's evaluation files of TyDiQA have empty texts for answers: read as not labelled, counted.
    """
    return [question for _, question in _questions(file, wanted)]


def read_language(names: Mapping[str, str]) -> Any:
    """A reader of one language out of a file of several, whose ids begin with the language's name."""

    def read_one(file: File, wanted: Wanted) -> list[Question]:
        return [
            q for id, q in _questions(file, wanted) if names.get(id.split("-")[0]) == wanted.language
        ]

    return read_one


def count(file: File, wanted: Wanted) -> int:
    """The questions, without reading them."""
    return len(_QUESTION.findall(file.content()))


def _questions(file: File, wanted: Wanted) -> Iterator[tuple[str, Question]]:
    for article in _member(file.json(), "data", list, file, "the file"):
        for paragraph in _member(article, "paragraphs", list, file, "an article"):
            context = _member(paragraph, "context", str, file, "a paragraph")
            for asked in _member(paragraph, "qas", list, file, "a paragraph"):
                id = str(_member(asked, "id", object, file, "a question"))
                where = f"question {id!r}"
                question = _member(asked, "question", str, file, where).strip()
                answers = (
                    []
                    if asked.get("is_impossible") or not asked.get("answers")
                    else (_member(asked, "answers", list, file, where))
                )
                texts = tuple(_member(a, "text", str, file, where) for a in answers)
                if texts and not any(texts):
                    wanted.note("questions without a label (their answer is an empty text)")
                    answers, texts = [], ()
                starts = tuple(_member(a, "answer_start", int, file, where) for a in answers)
                found = Question(question, context, texts, starts, wanted.language, id)
                found.check_answers(file)
                yield id, found


def _member(value: Any, name: str, kind: type[T], file: File, where: str) -> T:
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"{file}: {where} has no {name!r}: SQuAD's JSON is expected.")
    found = value[name]
    if not isinstance(found, kind):
        raise ValueError(f"{file}: {name!r} of {where} is {repr(found)[:60]}: give {TYPES[kind]}.")
    return found
