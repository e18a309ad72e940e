"""`gradaccord predict`: a trained model's answers to a text, or to every line or row of a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gradaccord.data.examples import EXAMPLES, answer_of
from gradaccord.data.files.bad_files import reading
from gradaccord.data.files.columns import Reader, has, no_column, several
from gradaccord.data.files.dialect import TableOptions
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.own_files import read, table_of
from gradaccord.data.files.tables import FORMATS, format_of, rows_of
from gradaccord.data.files.text_files import File, at, check_text
from gradaccord.models.saving import saved_tasks
from gradaccord.runs.files import MODEL
from gradaccord.tasks.evaluation import predict
from gradaccord.tasks.saved_models import load

BATCH = 32
TABLES = ("csv", "tsv", "json", "parquet", "arrow")


@dataclass(frozen=True)
class Answer:
    """A prediction. probabilities: of each class; None where the task has none."""

    prediction: Any
    probabilities: Mapping[str, float] | None


class Predictor:
    """A saved model, ready to answer for one of its tasks.

    needed: the fields that a question must have.
    columns: their names in the training files, which a question may also use.
    options: the format of those files.
    """

    def __init__(self, folder: Path, task: str | None = None, **files: Any) -> None:
        """files: how files differ from the training files, as options of `gradaccord.data.read`."""
        folder = model_folder(folder)
        self.model, self.tokens, tasks = load(folder)
        if task is None:
            if len(tasks) > 1:
                raise ValueError(f"The model has the tasks {', '.join(tasks)}: choose one with --task.")
            task = next(iter(tasks))
        if task not in tasks:
            raise ValueError(f"The model has no task {task!r}: it has {', '.join(tasks)}.")
        self.name, self.task = task, tasks[task]
        trained = dict(saved_tasks(folder)[task].own_files)
        chosen = {**trained, **files}
        columns = chosen.pop("columns", None) or {}
        self.written: Mapping[str, str] = chosen.pop("labels", None) or {}
        named = isinstance(columns, Mapping)
        self.columns: dict[str, Any] = dict(columns) if named else {}
        self.iob = chosen.pop("iob", "strict")
        self.options = TableOptions(**chosen, names=() if named else tuple(columns))
        self.needed, self._optional = self.task.question_fields()

    def __call__(
        self, examples: Sequence[Any], progress: Callable[[int], None] = lambda rows: None
    ) -> list[Any]:
        """A prediction for each example."""
        return [answer.prediction for answer in self.answers(examples, progress)]

    def answers(
        self, examples: Sequence[Any], progress: Callable[[int], None] = lambda rows: None
    ) -> list[Answer]:
        """A prediction for each example, with the probabilities of classes."""
        encoded = self.task.encode(examples, self.tokens)
        predictions, rows = predict(
            self.model, self.name, self.task, examples, encoded, batch_size=BATCH, progress=progress
        )
        likely = self.task.probabilities(rows)
        known = [None] * len(predictions) if likely is None else likely
        return [Answer(*both) for both in zip(predictions, known, strict=True)]

    def example(self, given: Any, where: str = "The input", line: int = 1) -> Any:
        """An example of the task's kind from a text, or from a mapping of its fields or columns.

        A label is not needed, and is ignored. where, line: of the question, for errors.
        """
        kind, place = self.task.kind, at(where, line)
        if not self.needed:
            return self.task.checked_question(given, place)
        if isinstance(given, str):
            if len(self.needed) > 1:
                columns = (several(self.columns.get(field, field)) for field in self.needed)
                named = ", ".join(column for own in columns for column in own)
                raise ValueError(
                    f"{place} is plain text, and a {kind} task needs more: give JSON with the fields "
                    f"{named}."
                )
            given = {self.needed[0]: EXAMPLES[kind].from_plain_text(given)}
        if not isinstance(given, Mapping):
            raise ValueError(f"{place} is {type(given).__name__}: give a text or a JSON object.")
        names = [*given]
        reader = self.reader(names)
        places = reader.places(names, place, "test")
        for field in self.needed:
            if field not in places:
                raise ValueError(no_column(repr(field), names, place))
        asked = {f: c for f, c in places.items() if f in self.needed or f in self._optional}
        found = reader.example(given, asked, where, line, Wanted("test", ""))
        for field in self.needed:
            if getattr(found, field) is None:
                raise ValueError(f"{place}: {','.join(places[field])!r} is missing: give a text.")
        return found

    def reader(self, names: Sequence[str]) -> Reader:
        """The reader of rows with columns of these names, labelled or not."""
        kind = self.task.kind
        labels = self.task.label_names if answer_of(kind) in ("class", "types") else ()
        called = {f: c for f, c in self.columns.items() if self._called(f, c, names)}
        return Reader(kind, called, labels, self.written if labels else {})

    def rows(self, path: Path) -> Sequence[tuple[int, Any]]:
        """Each row of a table, or the text or JSON object of each line, with its number."""
        file = File(path)
        ending = FORMATS.get(file.name.rpartition(".")[2].lower(), "text")
        format = self.options.format or ending
        if ending == "conll":
            raise ValueError(
                f"{path} holds one word per line: give a text or JSON object per line, or a table."
            )
        if format not in TABLES or not self.needed:
            return list(read_lines(file.lines(self.options.encoding), str(path)))
        with rows_of(file, format, self.options, self._fits)[0].each() as rows:
            return list(rows)

    def labelled(self, path: Path) -> Sequence[Any]:
        """The examples of a file with labels, of any format that a task can be trained on."""
        file, kind = File(path), self.task.kind
        if not self.needed:
            raise ValueError(
                f"A {kind} task cannot be evaluated on a file: its examples are not rows of a table."
            )
        if not path.is_file():
            raise FileNotFoundError(2, "No such file", str(path))
        shape, format = EXAMPLES[kind], format_of(file, self.options.format)
        if format in shape.whole_files:
            read_all = read(
                kind,
                {"test": path},
                self.columns,
                self.task.label_names,
                encoding=self.options.encoding,
                format=format,
                iob=self.iob,
            )
            return read_all.split("test")
        rows, _ = table_of(file, shape, self.options, self._fits)
        with reading(file):
            return list(self.reader(rows.names).each(rows, file, Wanted("test", "", iob=self.iob)))

    def _fits(self, names: Sequence[str]) -> bool:
        return self.reader(names).fits(names)

    def _called(self, field: str, column: str | Sequence[str], names: Sequence[str]) -> bool:
        """Whether a field goes by its column's name; a question may call it by the field's own."""
        return has(column, names) or (field in self.needed and field not in names)


def model_folder(folder: Path) -> Path:
    """The folder of a model, given that folder or the run that holds it."""
    inside = folder / MODEL
    return inside if inside.is_dir() else folder


def read_lines(lines: Iterable[str], where: str = "The input") -> Iterator[tuple[int, Any]]:
    """The text or JSON object of each line, with its number; empty lines are left out."""
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


def write_answers(
    target: TextIO, ending: str, inputs: Sequence[Any], answers: Sequence[Answer]
) -> None:
    """Write inputs with their answers: as a table with the inputs' columns, or as JSON lines.

    ending: csv or tsv, with a column for the prediction and one for the probability of each class;
    any other is JSON lines.
    """
    if ending not in ("csv", "tsv"):
        for given, answer in zip(inputs, answers, strict=True):
            line = {"input": given, "prediction": answer.prediction}
            if answer.probabilities is not None:
                line["probabilities"] = _rounded(answer.probabilities)
            target.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        return
    rows = [dict(given) if isinstance(given, Mapping) else {"text": given} for given in inputs]
    names = list(dict.fromkeys(name for row in rows for name in row))
    for row, answer in zip(rows, answers, strict=True):
        found = {"prediction": answer.prediction}
        found |= {f"p({name})": p for name, p in _rounded(answer.probabilities or {}).items()}
        for name in found:
            if name in names:
                raise ValueError(f"The input has a column {name!r}, which is to be written: rename it.")
        row |= found
    added = list(dict.fromkeys(name for row in rows for name in row if name not in names))
    writer = csv.writer(target, delimiter="\t" if ending == "tsv" else ",", lineterminator="\n")
    writer.writerow([*names, *added])
    for row in rows:
        writer.writerow([_cell(row.get(name, "")) for name in (*names, *added)])


def _rounded(probabilities: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in probabilities.items()}


def _cell(value: Any) -> Any:
    """Lists and objects as JSON, true and false as JSON has them."""
    if value is None:
        return ""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return value if plain else json.dumps(value, ensure_ascii=False, default=str)
