"""Settings of a few-shot run: what is learned, by which algorithm, for how long, how it is judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

# Each with the settings it starts from: they suit 28x28 characters and minutes of one processor
# core. Inner rates are for a loss that is a mean over examples.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "maml": {"inner_lr": 0.1, "inner_steps": 3, "outer_lr": 3e-3},
    "fomaml": {"inner_lr": 0.1, "inner_steps": 3, "outer_lr": 3e-3},
    "meta-sgd": {"inner_lr": 0.1, "inner_steps": 3, "outer_lr": 3e-3},
    "maml++": {"inner_lr": 0.1, "inner_steps": 3, "outer_lr": 3e-3},
    "reptile": {
        "inner_lr": 1e-3, "inner_steps": 5, "evaluation_steps": 50, "inner_batch": 10,
        "evaluation_batch": 5, "train_shots": 10, "tasks": 5, "queries": 1, "optimizer": "sgd",
        "outer_lr": 1.0, "schedule": "linear", "network": "reptile",
    },
}  # fmt: skip
ALGORITHMS["dotprod-inner"] = ALGORITHMS["reptile"] | {"inner_steps": 6}  # in pairs
ALGORITHMS["dotprod-outer"] = ALGORITHMS["reptile"] | {
    "optimizer": "adam", "outer_lr": 1e-3, "schedule": "constant"
}  # fmt: skip
SHARE = ("maml", "meta-sgd", "maml++")  # to which gradient sharing can be added
NETWORKS = ("auto", "maml", "reptile", "maml++")
OPTIMIZERS = ("adam", "sgd")
CLOCKS = ("wall", "processor")
SCHEDULES = ("constant", "linear", "cosine")
MAY_CHANGE = ("iterations", "minutes", "test_tasks")  # when a run is gone on with


@dataclass(frozen=True)
class Settings:
    """One run. Fields left at None follow another: train_shots = shots, evaluation_steps = inner_steps.

    Rates are for losses that are means over examples. minutes bounds the time spent in training
    alone, without validation. clip bounds each element of the meta-gradient.
    """

    data: str = "glyphs"
    data_dir: str | None = None
    size: int | None = None
    algorithm: str = "maml"
    share: bool = False
    ways: int = 5
    shots: int = 1
    train_shots: int | None = None
    queries: int = 5
    tasks: int = 4
    inner_lr: float = 0.1
    inner_steps: int = 3
    evaluation_steps: int | None = None
    inner_batch: int | None = None
    evaluation_batch: int | None = None
    optimizer: str = "adam"
    outer_lr: float = 1e-3
    schedule: str = "constant"
    clip: float | None = None
    align: float = 0.1  # weight of the dot product in DotProd
    align_cap: float = 0.1  # and how long its term may be, beside the plain gradient
    epoch: int = 500  # iterations; MAML++ anneals by epochs
    multi_step_epochs: int = 10
    network: str = "auto"
    filters: int | None = None
    iterations: int | None = 3000  # None: until the minutes are over
    minutes: float | None = None
    clock: str = "wall"  # that measures the minutes; "processor" leaves out other programs
    validate_every: int = 100
    validation_tasks: int = 100
    test_tasks: int = 600
    test_queries: int = 5
    curve_tasks: int = 50
    transductive: bool = False
    keep: int = 5  # best checkpoints, for the ensemble

    def __post_init__(self) -> None:
        for field, allowed in (
            ("algorithm", tuple(ALGORITHMS)),
            ("network", NETWORKS),
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("clock", CLOCKS),
        ):
            value = getattr(self, field)
            if value not in allowed:
                raise ValueError(f"`{field}` is {value!r}: choose one of {', '.join(allowed)}.")
        if self.share and self.algorithm not in SHARE:
            raise ValueError(
                f"`share` adds gradient sharing to {', '.join(SHARE)}, not to {self.algorithm}."
            )
        for field in (
            "tasks", "inner_steps", "validate_every", "validation_tasks", "test_tasks",
            "test_queries", "curve_tasks", "keep", "epoch",
        ):  # fmt: skip
            if getattr(self, field) < 1:
                raise ValueError(f"`{field}` is {getattr(self, field)}: it must be at least 1.")
        for field in ("inner_lr", "outer_lr"):
            if not getattr(self, field) > 0:
                raise ValueError(f"`{field}` is {getattr(self, field)}: a rate must be above 0.")
        if self.iterations is None and self.minutes is None:
            raise ValueError("`iterations` and `minutes` are both left out: give the run an end.")
        if self.iterations is not None and self.iterations < 1:
            raise ValueError(f"`iterations` is {self.iterations}: it must be at least 1.")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"`minutes` is {self.minutes}: give a time above 0, or leave it out.")

    @property
    def label(self) -> str:
        """Name of the method."""
        return f"{self.algorithm}+sharing" if self.share else self.algorithm

    @property
    def name(self) -> str:
        """Short name for folders and titles."""
        return f"{Path(self.data).stem}-{self.ways}way-{self.shots}shot-{self.label}"

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Settings:
        """What `save` wrote."""
        return cls.of(json.loads(path.read_text()))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """From a mapping; an unknown field is named."""
        known = {field.name for field in fields(cls)}
        for name in values:
            if name not in known:
                raise ValueError(f"{name!r} is no setting: there are {', '.join(sorted(known))}.")
        return cls(**values)

    def continued(self, **changes: Any) -> Settings:
        """The same run with other limits; None changes nothing."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


def settings_for(algorithm: str, *, preset: str | None = None, **chosen: Any) -> Settings:
    """The algorithm's own settings, over them a preset's, over them what was chosen (not None)."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"`algorithm` is {algorithm!r}: choose one of {', '.join(ALGORITHMS)}.")
    values: dict[str, Any] = dict(ALGORITHMS[algorithm])
    if preset is not None:
        from gradaccord.meta.presets import find_preset

        found = find_preset(preset)
        if found.algorithm != algorithm:
            raise ValueError(f"The preset {preset!r} is for {found.algorithm}, not for {algorithm}.")
        values |= found.settings
    values |= {name: value for name, value in chosen.items() if value is not None}
    if chosen.get("minutes") is not None and chosen.get("iterations") is None:
        values["iterations"] = None
    return Settings.of(values | {"algorithm": algorithm})
