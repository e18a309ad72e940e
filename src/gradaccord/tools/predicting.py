"""`gradaccord predict`: a trained model's answers to a text, or to every line of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

from gradaccord.data import examples as kinds
from gradaccord.data.examples import Document, Line, Question, Tagged, Text
from gradaccord.tasks.evaluation import predict
from gradaccord.tasks.saved import load
from gradaccord.train.run_folder import MODEL

BATCH = 32

_EXAMPLES: dict[str, Any] = {
    "classification": Text,
    "regression": Text,
    "multiple_choice": kinds.Choices,
    "multi_answer": kinds.Candidate,
    "cloze": kinds.Cloze,
    "word_in_context": kinds.WordPair,
    "coreference": kinds.Coreference,
    "question_answering": Question,
    "tagging": Tagged,
    "summarization": Document,
    "masked_lm": Line,
}


class Predictor:
    """A saved model, ready to answer for one of its tasks."""

    def __init__(self, folder: Path, task: str | None = None) -> None:
        self.model, self.tokens, tasks = load(model_folder(folder))
        if task is None:
            if len(tasks) > 1:
                raise ValueError(f"The model has the tasks {', '.join(tasks)}: choose one with --task.")
            task = next(iter(tasks))
        if task not in tasks:
            raise ValueError(f"The model has no task {task!r}: it has {', '.join(tasks)}.")
        self.name, self.task = task, tasks[task]

    def __call__(
        self, examples: Sequence[Any], progress: Callable[[int], None] = lambda rows: None
    ) -> list[Any]:
        """A prediction for each example."""
        encoded = self.task.encode(examples, self.tokens)
        return predict(
            self.model, self.name, self.task, examples, encoded, batch_size=BATCH, progress=progress
        )[0]

    def example(self, given: Any, where: str = "The input") -> Any:
        """An example of the task's kind from a text, or from a mapping of its fields."""
        kind = self.task.kind
        cls = _EXAMPLES.get(kind)
        if isinstance(given, str):
            if kind in ("classification", "regression") and getattr(self.task, "pair", None) is None:
                return Text(given)
            if kind == "tagging":
                return Tagged(tuple(given.split()))
            if kind == "summarization":
                return Document(given)
            if kind == "masked_lm":
                return Line(given)
            raise ValueError(
                f"{where} is plain text, and a {kind} task needs more: give JSON with the fields "
                f"{', '.join(_fields(kind))}."
            )
        if not isinstance(given, dict):
            raise ValueError(f"{where} is {type(given).__name__}: give a text or a JSON object.")
        if cls is None:
            raise ValueError(f"{where}: a {kind} task cannot be asked line by line.")
        known = _fields(kind)
        unknown = [key for key in given if key not in known]
        if unknown:
            raise ValueError(
                f"{where} has the field {unknown[0]!r}: a {kind} task takes {', '.join(known)}."
            )
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        values.pop("label", None)
        texts = [field.name for field in fields(cls) if field.type in ("str", "str | None")]
        for name in texts:
            if not isinstance(values.get(name, ""), str):
                raise ValueError(f"{where} has {values[name]!r} in the field {name!r}: give a text.")
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(f"{where} lacks a field: {error}.") from error


def model_folder(folder: Path) -> Path:
    """The model's folder, given itself or the run that holds it."""
    inside = folder / MODEL
    return inside if inside.is_dir() else folder


def read_inputs(file: TextIO, predictor: Predictor) -> Iterator[tuple[Any, Any]]:
    """What stands in each line, a text or an object, and its example; empty lines are left out."""
    for number, line in enumerate(file, start=1):
        if line := line.strip():
            where = f"{getattr(file, 'name', 'The input')}, line {number}"
            given = read_input(line, where)
            yield given, predictor.example(given, where)


def read_input(text: str, where: str = "The input") -> Any:
    """A JSON object if it starts with a brace, else the text itself."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error.msg} (character {error.pos}).") from error


def _fields(kind: str) -> list[str]:
    cls = _EXAMPLES.get(kind)
    return [field.name for field in fields(cls)] if cls is not None else []
