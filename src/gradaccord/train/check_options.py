"""Check that every name and option of a configuration exists, before any data is read."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from gradaccord.core.did_you_mean import nearest
from gradaccord.train.config import Config, TaskConfig

Place = tuple[str | int, ...]


class UnknownNameError(ValueError):
    """A name or option that does not exist. place: of the key or value in the configuration."""

    def __init__(self, place: Place, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


def check_names(config: Config) -> None:
    """Refuse a method, sampler, optimiser, regulariser, data set, kind or option that does not exist.

    What only the data or the model's folder can tell (the kind of a set of the hub, options of a
    trunk that is loaded from a folder) is left to them.
    """
    _check_method(config)
    if config.sampler is not None:
        from gradaccord.train.step_batches import SAMPLERS

        _check(("sampler",), "The sampler", config.sampler.name, config.sampler.options, SAMPLERS)
    from gradaccord.train.optimizers import OPTIMIZERS, optimizer_options

    optimizer = config.train.optimizer
    known = {name: optimizer_options(name) for name in OPTIMIZERS}
    place = ("train", "optimizer")
    _check(place, "`train.optimizer`", optimizer.name, optimizer.options, known)
    _check_regularizers(config)
    _check_model(config)
    for name, task in config.tasks.items():
        _check_task(name, task)


def _check_method(config: Config) -> None:
    from gradaccord.methods.registry import METHODS, SINGLE_TASK

    known: dict[str, Iterable[str]] = {n: list(e.known_options()) for n, e in METHODS.items()}
    known[SINGLE_TASK] = ()
    name = config.method.name
    if name in METHODS:
        try:
            known[name] = METHODS[name].known_options(config.method.options)
        except ValueError as error:  # the weighting is unknown
            raise UnknownNameError(("method", "weighting"), str(error)) from error
    _check(("method",), "The method", name, config.method.options, known)


def _check_regularizers(config: Config) -> None:
    from gradaccord.train.regularizers import REGULARIZERS

    known = {n: list(inspect.signature(cls).parameters)[1:] for n, (cls, _) in REGULARIZERS.items()}
    for i, term in enumerate(config.regularize):
        _check(("regularize", i), "The regulariser", term.name, term.options, known)


def _check_model(config: Config) -> None:
    from gradaccord.pretrain.trunks import trunk_options

    known = trunk_options(config.model.name)
    if known is not None:
        model = config.model
        _check(("model",), "The model", model.name, model.options, {model.name: known})


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
    known = [*TaskConfig.model_fields, *dict.fromkeys(options)]
    what = "a task" if kind is None else f"a {kind} task"
    for option in task.options:
        if option not in known:
            sentence = f"Task {name!r}: {what} has no option {option!r}: {nearest(option, known)}"
            raise UnknownNameError((*place, option), sentence)
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


def _check(
    place: Place,
    what: str,
    name: str,
    options: Mapping[str, Any],
    known: Mapping[str, Iterable[str]],
) -> None:
    """One named thing with its options."""
    if name not in known:
        told = f"{what} {name!r} is unknown"
        if what.startswith("`"):  # a field, not a thing
            told = f"{what} is {name!r}, which is unknown"
        raise UnknownNameError((*place, "name"), f"{told}: {nearest(name, known)}")
    takes = list(known[name])
    for option in options:
        if option not in takes:
            raise UnknownNameError(
                (*place, option), f"{what} {name!r} has no option {option!r}: {nearest(option, takes)}"
            )
