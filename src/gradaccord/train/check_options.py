"""Check that every name and option of a configuration exists, before any data is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import get_type_hints

from gradaccord.core.did_you_mean import nearest
from gradaccord.core.options import OptionError, check_options, checked, look_up
from gradaccord.data.samplers import check_sampler
from gradaccord.methods.registry import REGULARIZERS, check_method
from gradaccord.models.trunks.loading import trunk_options
from gradaccord.runs.yaml_text import Place
from gradaccord.train.config import Config, TaskConfig
from gradaccord.train.optimizers import check_optimizer


class UnknownNameError(ValueError):
    """A name or option that does not exist. place: of the key or value in the configuration."""

    def __init__(self, place: Place, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


def check_names(config: Config) -> None:
    """Refuse a method, sampler, optimiser, regulariser, data set, kind or option that does not exist.

    What only the data or the model's folder can tell (the kind of a set of the hub, options of a
    trunk that is loaded from a folder) is checked later.
    """
    with _at("method"):
        check_method(config.method.name, config.method.options)
    if config.sampler is not None:
        with _at("sampler"):
            check_sampler(config.sampler.name, config.sampler.options)
    with _at("train", "optimizer"):
        check_optimizer(config.train.optimizer.name, config.train.optimizer.options)
    for i, term in enumerate(config.regularize):
        with _at("regularize", i):
            look_up("The regulariser", term.name, REGULARIZERS).check(term.options)
    name, trunk = config.model.name, trunk_options(config.model.name)
    if trunk is not None:
        with _at("model"):
            check_options(f"The model {name!r}", config.model.options, trunk)
    for task, given in config.tasks.items():
        _check_task(task, given)


@contextmanager
def _at(*place: str | int) -> Iterator[None]:
    """A block that checks what the configuration says at a place."""
    try:
        yield
    except OptionError as error:
        raise UnknownNameError((*place, error.option), str(error)) from error


def _check_task(name: str, task: TaskConfig) -> None:
    from gradaccord.data.examples import EXAMPLES
    from gradaccord.data.files.columns import no_labels
    from gradaccord.tasks.registry import KINDS

    place: Place = ("tasks", name)
    if task.kind is not None and task.kind not in KINDS:
        raise UnknownNameError(
            (*place, "kind"),
            f"Task {name!r}: the kind {task.kind!r} is unknown: {nearest(task.kind, KINDS)}",
        )
    kind = task.kind or _kind_of_data(place, name, task)
    kinds = KINDS if kind is None else [kind]
    options = [field.name for k in kinds for field in fields(KINDS[k])]  # type: ignore[arg-type]
    known = list(dict.fromkeys([*TaskConfig.model_fields, *options]))
    what = "a task" if kind is None else f"a {kind} task"
    for option in task.options:
        if option not in known:
            sentence = f"Task {name!r}: {what} has no option {option!r}: {nearest(option, known)}"
            raise UnknownNameError((*place, option), sentence)
    if kind is not None and task.metric is not None:
        wanted = get_type_hints(KINDS[kind])["metric"]
        with _at(*place):
            checked("metric", task.metric, wanted, f"Task {name!r}")
    if kind is not None and task.labels is not None and "labels" not in options:
        raise UnknownNameError((*place, "labels"), f"Task {name!r}: {no_labels(kind)}")
    if kind is not None and kind not in EXAMPLES and task.clusters is not None:
        sentence = f"Task {name!r}: `clusters` are of texts, not of the kind {kind}: leave them out."
        raise UnknownNameError((*place, "clusters"), sentence)
    splits = ("train", "dev", "test")
    for split in task.limit:
        if split not in splits:
            sentence = f"Task {name!r}: `limit` names the split {split!r}: {nearest(split, splits)}"
            raise UnknownNameError((*place, "limit", split), sentence)


def _kind_of_data(place: Place, name: str, task: TaskConfig) -> str | None:
    from gradaccord.data.registry import kind_of

    if task.data is None:
        return None
    try:
        return kind_of(task.data)
    except ValueError as error:
        raise UnknownNameError((*place, "data"), f"Task {name!r}: {error}") from error
