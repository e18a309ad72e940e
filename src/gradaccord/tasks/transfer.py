"""Transfer: how a model that was trained on some tasks does on others of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gradaccord.data.dataset import Dataset
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Batch, States, Trunk
from gradaccord.tasks.evaluation import evaluate
from gradaccord.tasks.prepare import encode
from gradaccord.tasks.registry import build, options
from gradaccord.tasks.task import Output, Task

MEAN = "mean"  # of the sources' logits
_OF_THE_HEAD = frozenset({"labels", "pair", "head", "dropout"})  # options that its weights fit


@dataclass(frozen=True)
class Row:
    """One task of the table."""

    task: str
    head: str  # the task whose head was used, or "mean"
    seen: bool  # whether it was trained on
    examples: int
    metric: str
    scores: Mapping[str, float]

    @property
    def score(self) -> float:
        """The kind's own metric, in percent."""
        return self.scores[self.metric]


@dataclass(frozen=True)
class Transfer:
    """Scores of every task that was judged, in the order given."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, task: str) -> Row:
        return next(row for row in self.rows if row.task == task)

    def mean(self, *, seen: bool) -> float | None:
        """Mean score of the tasks that were trained on, or of those that were not; None if none."""
        scores = [row.score for row in self.rows if row.seen == seen]
        return sum(scores) / len(scores) if scores else None

    def to_json(self) -> list[dict[str, Any]]:
        """One record a task."""
        return [
            {"task": r.task, "head": r.head, "seen": r.seen, "examples": r.examples, **r.scores}
            for r in self.rows
        ]

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for row in self.rows for name in row.scores))
        lines = [["task", "head", "seen", "examples", *names]]
        lines += [
            [r.task, r.head, "yes" if r.seen else "no", f"{r.examples:,}"]
            + [f"{r.scores[name]:.1f}" if name in r.scores else "" for name in names]
            for r in self.rows
        ]
        for seen, said in ((True, "mean, seen"), (False, "mean, unseen")):
            mean = self.mean(seen=seen)
            if mean is not None and {r.metric for r in self.rows} == {self.rows[0].metric}:
                cells = [f"{mean:.1f}" if name == self.rows[0].metric else "" for name in names]
                lines.append([said, "", "", "", *cells])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = [
            [
                cell.ljust(w) if n < 2 else cell.rjust(w)
                for n, (cell, w) in enumerate(zip(line, widths, strict=True))
            ]
            for line in lines
        ]
        return "\n".join("  ".join(line).rstrip() for line in aligned)


def evaluate_transfer(
    model: MultiTaskModel,
    tokens: Tokens,
    sources: Mapping[str, Task[Any]],
    targets: Mapping[str, Dataset],
    *,
    split: str = "test",
    head: str | None = None,
    batch_size: int = 32,
    progress: Callable[[int], None] = lambda rows: None,
) -> Transfer:
    """Judge a model on data sets that it may never have seen.

        evaluate_transfer(model, tokens, {"xnli.en": task}, {"xnli.de": german, "xnli.sw": swahili})

    sources: the tasks that the model was trained on, by the names it knows them by.
    targets: data sets of the same kind; one under a source's name is judged by that task's own head.
    head: for the others, the source whose head is used, or "mean" for the mean of all sources' logits;
        None: the only head that the sources have, otherwise "mean".
    """
    chosen = _head(model, sources, head)
    # Checked before the first is judged, which may take minutes.
    plan = [
        (name, dataset, *_reader(model, name, dataset, sources, chosen))
        for name, dataset in targets.items()
    ]
    for _, dataset, *_ in plan:
        dataset.split(split)
    rows = []
    for name, dataset, task, used, reader in plan:
        examples = dataset.split(split)
        found = evaluate(
            reader, used, task, examples, encode(task, examples, tokens),
            batch_size=batch_size, progress=progress,
        )  # fmt: skip
        rows.append(Row(name, used, name in sources, len(examples), task.metric, found.scores))
    return Transfer(tuple(rows))


class MeanOfHeads(nn.Module):
    """A model whose output is the mean of several tasks' outputs; the trunk runs once."""

    def __init__(self, model: MultiTaskModel, tasks: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        by_head = {model.head_of[task]: task for task in tasks}  # a shared head counts once
        self.tasks = tuple(by_head.values())

    def forward(self, task: str, batch: Batch) -> Output:
        """The mean; `task` is not looked at."""
        once = _Once(self.model.trunk)
        outputs = [self.model.head(source)(once, batch) for source in self.tasks]
        if isinstance(outputs[0], torch.Tensor):
            return torch.stack(outputs).mean(0)
        return {name: torch.stack([of[name] for of in outputs]).mean(0) for name in outputs[0]}


class _Once:
    """Stands in for the trunk while several heads read the same batch."""

    def __init__(self, trunk: Trunk) -> None:
        self._trunk = trunk
        self._states: States | None = None

    def __call__(self, batch: Batch) -> States:
        if self._states is None:
            self._states = self._trunk(batch)
        return self._states

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trunk, name)


def _head(model: MultiTaskModel, sources: Mapping[str, Task[Any]], head: str | None) -> str:
    if not sources:
        raise ValueError("`sources` is empty: name at least one task that the model was trained on.")
    for name in sources:
        model.head(name)  # one that the model does not know is an error there
    if head is None:
        return next(iter(sources)) if len({model.head_of[name] for name in sources}) == 1 else MEAN
    if head != MEAN and head not in sources:
        raise ValueError(f"`head` is {head!r}: use one of {', '.join(sources)}, or '{MEAN}'.")
    return head


def _reader(
    model: MultiTaskModel, name: str, dataset: Dataset, sources: Mapping[str, Task[Any]], head: str
) -> tuple[Task[Any], str, nn.Module]:
    """With which task, head and model a target is judged."""
    if name in sources:
        _check_alike(name, dataset, name, sources[name])
        return sources[name], name, model
    used = list(sources) if head == MEAN else [head]
    for source in used:
        _check_alike(name, dataset, source, sources[source])
    task = _as_source(dataset, sources[used[0]])
    if head != MEAN:
        return task, head, model
    if task.generates:
        raise ValueError(
            f"Task {name!r} is of the kind {task.kind}, and texts have no mean: name a source as "
            "`head`."
        )
    return task, MEAN, MeanOfHeads(model, used)


def task_by_head(
    name: str,
    dataset: Dataset,
    source: str,
    task: Task[Any],
    given: Mapping[str, Any] | None = None,
) -> Task[Any]:
    """The task of a data set that is judged by the head of another one; an error if it cannot be.

    given: options of its own, such as its scoring; one that the head's weights fit cannot differ.
    """
    _check_alike(name, dataset, source, task)
    own = given or {}
    for option in _OF_THE_HEAD & own.keys():
        if own[option] != options(task).get(option):
            raise ValueError(
                f"Task {name!r} is judged by the head of {source!r}: leave `{option}` out."
            )
    return build(task.kind, **{**options(_as_source(dataset, task)), **own})


def _as_source(dataset: Dataset, source: Task[Any]) -> Task[Any]:
    """The source's task, with the target's language and what else is its own, such as its scoring."""
    own = dict(dataset.options)
    if dataset.language and hasattr(source, "language"):
        own["language"] = dataset.language
    taken = {name: value for name, value in own.items() if name not in _OF_THE_HEAD}
    return build(source.kind, **{**options(source), **taken})


def _check_alike(name: str, dataset: Dataset, source: str, task: Task[Any]) -> None:
    if dataset.kind != task.kind:
        raise ValueError(
            f"Task {name!r} is of the kind {dataset.kind} and {source!r} of the kind {task.kind}: only "
            "tasks of one kind can use each other's heads."
        )
    if not task.takes_labels(dataset.labels):
        labels = getattr(task, "labels", ())
        raise ValueError(
            f"Task {name!r} has the labels {', '.join(dataset.labels)} and {source!r} has "
            f"{', '.join(labels)}: a head can only be used for its own, in the same order."
        )
