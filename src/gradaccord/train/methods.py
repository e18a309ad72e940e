"""The methods by name: how each is built, what it is fed, what it costs, and its fair control."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import gradaccord
from gradaccord.combine.weightings import options_of
from gradaccord.train.spelling import canonical, nearest

# What one `backward` is given: a batch of each of the step's tasks; one batch; two batches at the
# same weights; or one batch of a task that stays the same for a whole trajectory.
Feed = Literal["all", "one", "pair", "blocks"]


@dataclass(frozen=True)
class Entry:
    """One method.

    cost: batch gradients that it spends on each batch it is given.
    control: the method that takes the same steps without the idea, which it must be compared with.
    """

    name: str
    summary: str
    feed: Feed
    cls: str  # of the public names
    cost: float = 1.0
    control: str | None = "sum"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    needs_optimizer: bool = False
    without: tuple[str, ...] = ()  # options of its base class that it does not take
    kept: int = 0  # of gradients or weights, beside the gradient that is stepped on

    def build(self, model: Any, optimizer: Any, *, tasks: Sequence[str], **options: Any) -> Any:
        """The method itself, for a model as it is called in the losses."""
        self.check({k: v for k, v in options.items() if k not in ("engine", "seed")})
        made: Callable[..., Any] = getattr(gradaccord, self.cls)
        settings = {**self.fixed, **options}
        if self.needs_optimizer:
            made = partial(made, optimizer=optimizer)
            settings.pop("seed", None)
        if self.cls == "TorchJD":
            settings["tasks"] = tasks
        if self.cls == "MultiTaskReptile":
            settings["tasks"] = len(tasks)
        return made(model, **settings)

    def fed(self, options: Mapping[str, Any]) -> Feed:
        """What one `backward` is given, with these options."""
        return "pair" if self.cls == "SAM" and options.get("batches", 1) == 2 else self.feed

    def spent(self, options: Mapping[str, Any]) -> float:
        """Batch gradients per batch, with these options."""
        if self.cls != "DotProd":
            return 2.0 if self.cls == "SAM" and options.get("batches", 1) == 1 else self.cost
        settings = {**self.fixed, **options}
        exact = settings.get("mode", "exact") == "exact"
        passes = {"one-sided": (4.2, 3), "centred": (4, 4), "symmetric": (7, 5)}
        extra = passes[settings.get("scheme", "one-sided")][0 if exact else 1] - 2
        return 1 + extra / int(settings.get("every", 2))

    def copies(self, tasks: int) -> int:
        """Of gradients or weights, that it keeps beside the gradient that is stepped on."""
        return max(tasks - 1, 0) if self.feed == "all" else self.kept

    def known_options(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Every option with its default. given: those in use, as TorchJD's weighting has its own."""
        cls = getattr(gradaccord, self.cls)
        hidden = {"self", "model", "optimizer", "options", "engine", "seed", "tasks", "gradient"}
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if "__init__" in vars(base) and base is not object:
                for option in inspect.signature(base.__init__).parameters.values():
                    if option.name not in hidden and option.kind is not option.VAR_KEYWORD:
                        found[option.name] = option.default
        if self.cls == "TorchJD" and given is not None:
            found |= _options_of_weighting(given)
        return {k: self.fixed.get(k, v) for k, v in found.items() if k not in self.without}

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse an option that the method does not have."""
        known = self.known_options(options)
        for option in options:
            if option not in known:
                hint = nearest(option, known, "it takes")
                raise ValueError(f"Method {self.name!r} has no option {option!r}: {hint}")


_ENTRIES = (
    Entry("sum", "plain multi-task training on the summed loss", "all", "Sum", control=None),
    Entry(
        "mean",
        "plain multi-task training on the mean loss",
        "all",
        "Mean",
        control=None,
        without=("reduction",),
    ),
    Entry("pcgrad", "projects conflicting task gradients off one another", "all", "PCGrad"),
    Entry("gradvac", "raises each pair's cosine to its running target", "all", "GradVac"),
    Entry(
        "gradnorm",
        "learns task weights that train all tasks at one rate",
        "all",
        "GradNorm",
        without=("granularity",),
    ),
    Entry(
        "torchjd",
        "any TorchJD weighting, e.g. torchjd:weighting=CAGrad,c=0.5",
        "all",
        "TorchJD",
    ),
    Entry(
        "paired_sum",
        "two batches at the same weights, no more",
        "pair",
        "PairedSum",
        control=None,
        kept=1,
    ),
    Entry(
        "dotprod",
        "adds the gradient of two batches' dot product",
        "pair",
        "DotProd",
        control="paired_sum",
        kept=2,
    ),
    Entry("sam", "the gradient at the worst point nearby", "one", "SAM", control="sequential", kept=1),
    Entry(
        "sequential",
        "one task a step, by the sampler: Sequential Reptile with outer_lr 1",
        "one",
        "Sum",
        control=None,
    ),
    Entry(
        "sequential_reptile",
        "a trajectory over batches of all tasks, then a Reptile step",
        "one",
        "SequentialReptile",
        control="sequential",
        needs_optimizer=True,
        kept=1,
    ),
    Entry(
        "reptile",
        "k steps, then a step towards their end",
        "one",
        "Reptile",
        control="sequential",
        needs_optimizer=True,
        kept=1,
    ),
    Entry(
        "fomaml",
        "k steps, then the last one's gradient from the start",
        "one",
        "FOMAML",
        control="sequential",
        needs_optimizer=True,
        kept=2,
    ),
    Entry(
        "multitask_reptile",
        "a trajectory per task from the same start, then their mean",
        "blocks",
        "MultiTaskReptile",
        control="sequential",
        needs_optimizer=True,
        kept=2,
    ),
)


def _options_of_weighting(given: Mapping[str, Any]) -> dict[str, Any]:
    """What TorchJD's weighting of a name takes."""
    name = given.get("weighting")
    if name is None:
        raise ValueError("The method 'torchjd' needs a `weighting`: e.g. UPGrad, CAGrad or MGDA.")
    try:
        return options_of(str(name), given)
    except TypeError as error:  # it cannot be used, or not without an option
        raise ValueError(str(error)) from error


METHODS = {entry.name: entry for entry in _ENTRIES}
SINGLE_TASK = "stl"  # one model per task: several runs, see `train.start`
NAMES = (*METHODS, SINGLE_TASK)


def canonical_method(name: str) -> str:
    """The name as it is known here, however it was spelled; one that is unknown stays as it is."""
    return canonical(name, NAMES)


def find_method(name: str) -> Entry:
    """The entry of a name; an unknown one is answered with the nearest."""
    if name not in METHODS:
        raise ValueError(f"The method {name!r} is unknown: {nearest(name, NAMES)}")
    return METHODS[name]


def check_method(name: str, options: Mapping[str, Any]) -> None:
    """Refuse a method or an option that there is none of."""
    if name != SINGLE_TASK:
        find_method(name).check(options)
    elif options:
        raise ValueError(f"Method {name!r} has no option {next(iter(options))!r}: leave it out.")
