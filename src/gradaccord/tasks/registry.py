"""The kinds of task by name, and how a task is built from the options in a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

from gradaccord.core.did_you_mean import nearest
from gradaccord.core.options import checked

if TYPE_CHECKING:
    from gradaccord.data.dataset import Dataset
    from gradaccord.tasks.task import Task

# Each kind's class; its module in `tasks/kinds` has the kind's name.
CLASSES = {
    "classification": "Classification",
    "regression": "Regression",
    "multiple_choice": "MultipleChoice",
    "multi_answer": "MultiAnswer",
    "cloze": "EntityCloze",
    "word_in_context": "WordInContext",
    "coreference": "PronounResolution",
    "question_answering": "QuestionAnswering",
    "tagging": "Tagging",
    "summarization": "Summarization",
    "image": "ImageClassification",
    "masked_lm": "MaskedLM",
}


class Kinds(Mapping[str, type["Task[Any]"]]):
    """Kind name -> class; a module is imported when its kind is first used."""

    def __init__(self) -> None:
        self._registered: dict[str, type[Task[Any]]] = {}

    def __getitem__(self, kind: str) -> type[Task[Any]]:
        if kind not in self._registered:
            found = getattr(import_module(f"gradaccord.tasks.kinds.{kind}"), CLASSES[kind])
            self._registered[kind] = found
        return self._registered[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in CLASSES or kind in self._registered

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*CLASSES, *self._registered]))

    def __len__(self) -> int:
        return len({*CLASSES, *self._registered})

    def register(self, kind: type[Task[Any]]) -> None:
        """Add a kind of your own; configurations, predictions and error views know it from then on."""
        self._registered[kind.kind] = kind


KINDS = Kinds()


def build(kind: str, **options: Any) -> Task[Any]:
    """A task of a kind, as a configuration names it; `build(task.kind, **options(task)) == task`.

    Lists become tuples. A kind, option or value that does not exist raises a ValueError that names the
    nearest one.
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` is {kind!r}: {nearest(kind, KINDS, 'use one of')}")
    wanted = KINDS[kind]
    known = {field.name: field for field in fields(wanted)}  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            raise ValueError(f"A {kind} task has no option {name!r}: {nearest(name, known)}")
    for name, field in known.items():
        if name not in options and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"A {kind} task needs the option `{name}`: give it.")
    types = get_type_hints(wanted)
    return wanted(**{name: checked(name, value, types[name]) for name, value in options.items()})


def options(task: Task[Any]) -> dict[str, Any]:
    """The options that a task was made with, ready for YAML or JSON."""
    values = {field.name: getattr(task, field.name) for field in fields(task)}  # type: ignore[arg-type]
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def task_for(dataset: Dataset, **options: Any) -> Task[Any]:
    """The task of a data set: its labels and language, its own options, and yours over them."""
    if dataset.kind not in KINDS:
        hint = nearest(dataset.kind, KINDS, "use one of")
        raise ValueError(f"`{dataset.name}` is of the kind {dataset.kind!r}: {hint}")
    known = {field.name for field in fields(KINDS[dataset.kind])}  # type: ignore[arg-type]
    given = {"labels": tuple(dataset.labels), "language": dataset.language}
    from_data = {name: value for name, value in given.items() if value and name in known}
    return build(dataset.kind, **{**from_data, **dataset.options, **options})
