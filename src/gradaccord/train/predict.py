"""`gradaccord predict`: a trained model's answers to a text, or to every line or row of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradaccord.data.examples import EXAMPLES
from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.columns import Reader, has, no_column
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.tables import FORMATS, rows_of
from gradaccord.data.files.text_files import File, at, check_text
from gradaccord.models.saving import saved_tasks
from gradaccord.runs.files import MODEL
from gradaccord.tasks.evaluation import predict
from gradaccord.tasks.saved_models import load

BATCH = 32
TABLES = ("csv", "tsv", "json", "parquet")


class Predictor:
    """A saved model, ready to answer for one of its tasks.

    needed: the fields that a question has to have. columns: how they were called in the files that the
    task was trained on, which a question may call them, too.
    """

    def __init__(self, folder: Path, task: str | None = None) -> None:
        folder = model_folder(folder)
        self.model, self.tokens, tasks = load(folder)
        if task is None:
            if len(tasks) > 1:
                raise ValueError(f"The model has the tasks {', '.join(tasks)}: choose one with --task.")
            task = next(iter(tasks))
        if task not in tasks:
            raise ValueError(f"The model has no task {task!r}: it has {', '.join(tasks)}.")
        self.name, self.task = task, tasks[task]
        self.columns = dict(saved_tasks(folder)[task].columns)
        self.needed, self._optional = self.task.question_fields()

    def __call__(
        self, examples: Sequence[Any], progress: Callable[[int], None] = lambda rows: None
    ) -> list[Any]:
        """A prediction for each example."""
        encoded = self.task.encode(examples, self.tokens)
        return predict(
            self.model, self.name, self.task, examples, encoded, batch_size=BATCH, progress=progress
        )[0]

    def example(self, given: Any, where: str = "The input", line: int = 1) -> Any:
        """An example of the task's kind from a text, or from a mapping of its fields or columns.

        A label is not needed, and not looked at. where, line: of the question, for errors.
        """
        kind, place = self.task.kind, at(where, line)
        if not self.needed:
            return self.task.checked_question(given, place)
        if isinstance(given, str):
            if len(self.needed) > 1:
                columns = (self.columns.get(field, field).split(",") for field in self.needed)
                named = ", ".join(column.strip() for several in columns for column in several)
                raise ValueError(
                    f"{place} is plain text, and a {kind} task needs more: give JSON with the fields "
                    f"{named}."
                )
            given = {self.needed[0]: EXAMPLES[kind].from_plain_text(given)}
        if not isinstance(given, Mapping):
            raise ValueError(f"{place} is {type(given).__name__}: give a text or a JSON object.")
        names = [*given]
        reader = Reader(kind, {f: c for f, c in self.columns.items() if self._called(f, c, names)})
        places = reader.places(names, place, "test")
        for field in self.needed:
            if field not in places:
                raise ValueError(no_column(repr(field), names, place))
        asked = {f: c for f, c in places.items() if f in self.needed or f in self._optional}
        found = reader.example(given, asked, where, line, Wanted("test", ""))
        if "second" in self.needed and found.second is None:
            raise ValueError(f"{place}: {','.join(places['second'])!r} is missing: give a text.")
        return found

    def _called(self, field: str, column: str, names: Sequence[str]) -> bool:
        """Whether a field goes by its column's name; a question may call it by the field's own."""
        return has(column, names) or (field in self.needed and field not in names)


def model_folder(folder: Path) -> Path:
    """The model's folder, given itself or the run that holds it."""
    inside = folder / MODEL
    return inside if inside.is_dir() else folder


def read_file(path: Path) -> Iterator[tuple[int, Any]]:
    """What stands in each line, a text or an object, or in each row of a table, with its number."""
    file = File(path)
    format = FORMATS.get(file.name.rpartition(".")[2].lower(), "text")
    if format == "conll":
        raise ValueError(f"{path} holds a word a line: give a text or JSON object a line, or a table.")
    return iter(rows_of(file, format)) if format in TABLES else read_lines(file.lines(), str(path))


def read_lines(lines: Iterable[str], where: str = "The input") -> Iterator[tuple[int, Any]]:
    """What stands in each line, a text or an object, with its number; empty lines are left out."""
    for number, line in enumerate(lines, start=1):
        if line := line.strip():
            yield number, read_input(line, at(where, number))


def read_input(text: str, where: str = "The input") -> Any:
    """A JSON object if it starts with a brace, else the text itself."""
    if not text.lstrip().startswith("{"):
        return text
    with reading(where, "repair it"):
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{where} is not JSON: {error.msg} (character {error.pos}).") from error
        check_text(found)
        return found
