"""Everything that a configuration names, loaded: data, tasks, trunk, heads, tokenised splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.dataset import Dataset
from gradaccord.data.files import hub
from gradaccord.data.files.own_files import read
from gradaccord.data.files.tensor_cache import fingerprint
from gradaccord.data.label_noise import with_label_noise
from gradaccord.data.leakage import Overlap, overlaps
from gradaccord.data.registry import HUB, load
from gradaccord.data.splits import cut, drawn
from gradaccord.data.stored import stored
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.freezing import freeze, modules_of
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.models.trunks.lora import add_lora
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.data_card import DataCard, data_card
from gradaccord.tasks.prepare import Prepared, prepare
from gradaccord.tasks.pseudo_tasks import PseudoTasks, pseudo_tasks
from gradaccord.tasks.registry import KINDS, task_for
from gradaccord.tasks.task import Task, errors_named
from gradaccord.tasks.transfer import task_by_head
from gradaccord.train.config import Config, TaskConfig
from gradaccord.train.paths import RULE

EVALUATED = ("dev", "test")


@dataclass(frozen=True)
class Problem:
    """What is trained, and what it is evaluated on."""

    model: MultiTaskModel
    tokens: Tokens
    prepared: Mapping[str, Prepared]
    trained: tuple[str, ...]  # what steps are drawn from: tasks, or the clusters of one
    scored: tuple[str, ...]  # whose scores make the average
    overlaps: Sequence[Overlap] = field(default_factory=tuple)
    clustered: Sequence[PseudoTasks] = field(default_factory=tuple)
    batch_sizes: Mapping[str, int] = field(default_factory=dict)  # of tasks that have their own
    weights: Mapping[str, float] = field(default_factory=dict)  # of all that steps are drawn from
    patience: Mapping[str, int] = field(default_factory=dict)  # of tasks that have their own
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what is drawn of each task
    folder: Path | None = None  # of the data sets
    datasets: Mapping[str, Dataset] = field(default_factory=dict)  # of the tasks, without their splits

    def rows(self, split: str) -> int:
        """The rows of all tasks that have this split."""
        return sum(len(self.prepared[name].encoded[split]) for name in self.evaluated(split))

    @cached_property
    def cards(self) -> dict[str, DataCard]:
        """A card of each task's data."""
        return {name: data_card(self.prepared[name], self.tokens) for name in self.datasets}

    def evaluated(self, split: str) -> tuple[str, ...]:
        """The tasks that have this split."""
        return tuple(name for name, p in self.prepared.items() if split in p.encoded)


def load_problem(config: Config, folder: Path | None = None, watch: Watch = NOBODY) -> Problem:
    """Read and tokenise all data and build the model. folder: of the data sets, if not configured."""
    folder = config.data_folder or folder
    datasets = {}
    for name, task in config.tasks.items():
        with errors_named(name):
            datasets[name] = load_dataset(name, task, folder, watch)
    trunk, tokens = _trunk(config, datasets)
    trained = tuple(name for name, task in config.tasks.items() if not task.evaluate_only)
    tasks, sources = _tasks(config, datasets, trained)
    prepared = {
        name: prepare(name, made, datasets[name], tokens, watch) for name, made in tasks.items()
    }
    head_of = {}
    for name in config.tasks:
        reader = sources.get(name, name)
        head_of[name] = config.tasks[reader].shared_head or reader
    heads = {}
    for name in trained:
        if head_of[name] not in heads:
            heads[head_of[name]] = tasks[name].new_head(trunk)
    drawn: dict[str, TaskConfig] = {}  # what steps are drawn from, and what is configured of it
    clustered = []
    for name in trained:
        own = config.tasks[name]
        if own.clusters is None:
            drawn[name] = own
            continue
        whole = dataclasses.replace(datasets[name], name=name)
        # Fewer dimensions where there are too few examples for a covariance in fifty.
        most = max(len(whole.splits["train"]) // own.clusters - 1, 1)
        clustered.append(
            pseudo_tasks(whole, trunk, tokens, clusters=own.clusters, dimensions=min(50, most))
        )
        for part, dataset in clustered[-1].datasets.items():
            prepared[part] = prepare(part, tasks[name], dataset, tokens, watch)
            head_of[part] = head_of[name]
            drawn[part] = own
    return Problem(
        model=MultiTaskModel(trunk, heads, head_of),
        tokens=tokens,
        prepared=prepared,
        trained=tuple(drawn),
        scored=trained,
        folder=folder,
        datasets={name: dataclasses.replace(own, splits={}) for name, own in datasets.items()},
        clustered=tuple(clustered),
        batch_sizes={name: own.batch_size for name, own in drawn.items() if own.batch_size is not None},
        weights={name: own.weight for name, own in drawn.items()},
        patience=_patience(config, trained, prepared),
        parts={t: [name for name, own in drawn.items() if own is config.tasks[t]] for t in trained},
        overlaps=tuple(_overlaps(datasets, trained, watch)),
    )


def _trunk(config: Config, datasets: Mapping[str, Dataset]) -> tuple[Trunk, Tokens]:
    """The trunk with adapters, and frozen, as configured; and its tokens."""
    options = dict(config.model.options)
    if any(KINDS[dataset.kind].generates for dataset in datasets.values()):
        options.setdefault("decoder", True)
    trunk, tokens = load_trunk(config.model.name, **options)
    frozen = modules_of(trunk, config.model.freeze)
    if config.model.lora is not None:
        add_lora(trunk, config.model.lora.model_dump())
    freeze(trunk, frozen)
    return trunk, tokens


def _tasks(
    config: Config, datasets: Mapping[str, Dataset], trained: Sequence[str]
) -> tuple[dict[str, Task[Any]], dict[str, str]]:
    """All tasks, trained ones first; and whose heads the others are evaluated with."""
    tasks = {name: make_task(name, config.tasks[name], datasets[name]) for name in trained}
    sources = {
        name: _source(name, config, datasets[name], tasks) for name in datasets if name not in trained
    }
    for name, source in sources.items():
        given = config.tasks[name].options
        with errors_named(name):
            tasks[name] = task_by_head(name, datasets[name], source, tasks[source], given)
    return tasks, sources


def _patience(
    config: Config, trained: Sequence[str], prepared: Mapping[str, Prepared]
) -> dict[str, int]:
    """The patience of tasks that have their own; each needs scores on dev."""
    found = {}
    for name in trained:
        evaluations = config.tasks[name].patience
        if evaluations is None:
            continue
        if not prepared[name].labelled("dev"):
            raise ValueError(
                f"Task {name!r}: `patience` is {evaluations}, and the task has no labelled dev split: "
                "give it one (`cut` holds one out), or leave `patience` out."
            )
        found[name] = evaluations
    return found


def _overlaps(
    datasets: Mapping[str, Dataset], trained: Sequence[str], watch: Watch
) -> Iterator[Overlap]:
    """What any training data shares with any evaluation data."""
    return overlaps(
        ((f"{name} train", datasets[name].splits["train"]) for name in trained),
        (
            (f"{name} {split}", dataset.splits[split])
            for name, dataset in datasets.items()
            for split in EVALUATED
            if split in dataset.splits
        ),
        watch,
    )


def load_dataset(name: str, task: TaskConfig, folder: Path | None, watch: Watch = NOBODY) -> Dataset:
    """The data of one task, cut to its limits."""
    if task.files is not None:
        try:
            dataset = _own(name, task, watch)
        except FileNotFoundError as error:
            raise ValueError(f"{error.filename}: {error.strerror} ({RULE}).") from error
    else:
        assert task.data is not None
        if task.data.startswith(HUB):
            if isinstance(task.columns, list) or isinstance(task.labels, dict):
                raise ValueError(
                    "`columns` of a set of the hub name the column of each field, and `labels` are a "
                    "list: its columns and classes have names already."
                )
            dataset = hub.load(
                task.data.removeprefix(HUB),
                kind=task.kind,
                columns=task.columns,
                labels=task.labels,
                on_disk=True,
                watch=watch,
            )
        else:
            dataset = load(task.data, folder=folder, on_disk=True, watch=watch)
    if task.dev_as_test:
        dataset = _dev_as_test(dataset)
    if task.cut is not None:
        dataset = cut(dataset, task.cut, watch=watch)
    if task.label_noise:
        dataset = with_label_noise(dataset, task.label_noise)
    splits = {
        split: drawn(examples, task.limit[split]) if split in task.limit else examples
        for split, examples in dataset.splits.items()
    }
    if not task.evaluate_only and "train" not in splits:
        raise ValueError(
            f"Task {name!r} ({dataset.name}) has no train split: set `cut` to hold part of another one "
            "out, or `evaluate_only: true`."
        )
    if task.evaluate_only:
        splits = {split: examples for split, examples in splits.items() if split in EVALUATED}
    return dataclasses.replace(dataset, splits=splits)


def _own(name: str, task: TaskConfig, watch: Watch) -> Dataset:
    """A task's own files: read once, then from the cache until a file or an option changes."""
    assert task.files is not None
    options: dict[str, Any] = {"kind": task.kind, **task.reading}
    make = partial(read, **options, files=task.files, name=name, watch=watch)
    given = [[each] if isinstance(each, str | Path) else each for each in task.files.values()]
    paths = [Path(path) for several in given for path in several]
    if not all(path.is_file() for path in paths):
        return make()  # which says what is missing
    known = "\n".join(fingerprint(path) for path in paths)
    known = f"{known} {options!r} { {split: str(file) for split, file in task.files.items()}!r}"
    what = ", ".join(path.name for path in paths)
    dataset = stored(lambda keep: make(keep=keep), known, what, watch)
    return dataclasses.replace(dataset, name=name)


def _dev_as_test(dataset: Dataset) -> Dataset:
    splits = dict(dataset.splits)
    if "train" not in splits or "dev" not in splits:
        raise ValueError(
            f"`dev_as_test` is true, and `{dataset.name}` has no train and dev split: leave it out."
        )
    return dataclasses.replace(dataset, splits={"train": splits["train"], "test": splits["dev"]})


def make_task(name: str, task: TaskConfig, dataset: Dataset) -> Task[Any]:
    """The task of a data set, with the configured options."""
    if task.kind is not None and task.kind != dataset.kind:
        dataset = dataclasses.replace(dataset, kind=task.kind, options={})
    with errors_named(name):
        return task_for(dataset, **task.options)


def _source(name: str, config: Config, dataset: Dataset, trained: Mapping[str, Task[Any]]) -> str:
    """The trained task whose head an evaluate-only one uses: configured, or the first of its kind."""
    if config.tasks[name].source is not None:
        return str(config.tasks[name].source)
    same = [other for other, task in trained.items() if task.kind == dataset.kind]
    if not same:
        raise ValueError(
            f"Task {name!r} is `evaluate_only`, and no trained task is of its kind ({dataset.kind}): "
            "train one."
        )
    return same[0]
