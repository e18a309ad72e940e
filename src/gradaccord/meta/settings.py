"""Settings of a few-shot run: one model that options, presets and key=value overrides fill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gradaccord.core.did_you_mean import nearest
from gradaccord.meta.presets import find_preset
from gradaccord.runs.files import DamagedFileError, damaged, read_object, write_json

Algorithm = Literal["maml", "fomaml", "meta-sgd", "maml++", "reptile", "dotprod-inner", "dotprod-outer"]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]

# What each algorithm starts from: suits 28x28 characters and minutes of one processor core. Inner
# rates are for a loss that is a mean over examples.
_MAML = {"inner_lr": 0.1, "inner_steps": 3, "outer_lr": 3e-3}
_REPTILE = {
    "inner_lr": 1e-3, "inner_steps": 5, "evaluation_steps": 50, "inner_batch": 10,
    "evaluation_batch": 5, "train_shots": 10, "tasks": 5, "queries": 1, "optimizer": "sgd",
    "outer_lr": 1.0, "schedule": "linear", "network": "reptile",
}  # fmt: skip
ALGORITHMS: dict[str, dict[str, Any]] = {
    "maml": _MAML,
    "fomaml": _MAML,
    "meta-sgd": _MAML,
    "maml++": _MAML,
    "reptile": _REPTILE,
    "dotprod-inner": _REPTILE | {"inner_steps": 6},  # in pairs
    "dotprod-outer": _REPTILE | {"optimizer": "adam", "outer_lr": 1e-3, "schedule": "constant"},
}
SHARE = ("maml", "meta-sgd", "maml++")  # to which gradient sharing can be added
LIMITS = ("iterations", "minutes", "test_tasks")  # which may change when a run is resumed


class FewShotSettings(BaseModel):
    """One run. Fields left at None follow another: train_shots = shots, evaluation_steps = inner_steps.

    Rates are for losses that are means over examples. minutes bounds the time spent in training
    alone, without validation. clip bounds each element of the meta-gradient.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = "glyphs"
    data_dir: str | None = None
    size: int | None = Field(None, ge=16)
    algorithm: Algorithm = "maml"
    share: bool = False
    ways: int = Field(5, ge=2)
    shots: Count = 1
    train_shots: Count | None = None
    queries: Count = 5
    tasks: Count = 4
    inner_lr: Positive = 0.1
    inner_steps: Count = 3
    evaluation_steps: int | None = Field(None, ge=0)
    inner_batch: Count | None = None
    evaluation_batch: Count | None = None
    optimizer: Literal["adam", "sgd"] = "adam"
    outer_lr: Positive = 1e-3
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    clip: Positive | None = None
    align: float = 0.1  # weight of the dot product in DotProd
    align_cap: float = Field(0.1, gt=0, allow_inf_nan=True)  # length of its term / the plain gradient's
    epoch: Count = 500  # iterations; MAML++ anneals by epochs
    multi_step_epochs: int = Field(10, ge=0)
    network: Literal["auto", "maml", "reptile", "maml++"] = "auto"
    filters: Count | None = None
    iterations: Count | None = 3000  # None: until the minutes are over
    minutes: Positive | None = None
    clock: Literal["wall", "processor"] = "wall"  # measures the minutes; "processor": of this program
    validate_every: Count = 100
    validation_tasks: Count = 100
    test_tasks: Count = 600
    test_queries: Count = 5
    curve_tasks: Count = 50
    transductive: bool = False
    keep: Count = 5  # best checkpoints, for the ensemble

    @model_validator(mode="after")
    def _agree(self) -> FewShotSettings:
        if self.share and self.algorithm not in SHARE:
            raise ValueError(
                f"`share` adds gradient sharing to {', '.join(SHARE)}, not to {self.algorithm}."
            )
        if self.iterations is None and self.minutes is None:
            raise ValueError("`iterations` and `minutes` are both left out: give the run an end.")
        return self

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FewShotSettings:
        """From a mapping; the first mistake becomes one sentence."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ValueError(_sentence(error)) from error

    @classmethod
    def read(cls, path: Path) -> FewShotSettings:
        """What `save` wrote."""
        remedy = "put the run's own settings back, or start again in a new folder"
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: {remedy}.")
        try:
            content = read_object(path)
            if missing := {"data", "algorithm"} - content.keys():
                raise ValueError(f"it does not name {' and '.join(sorted(missing))}")
            return cls.of(content)
        except DamagedFileError:
            raise
        except ValueError as error:
            raise damaged(path, str(error), remedy) from error

    def save(self, path: Path) -> None:
        """Write as JSON."""
        write_json(path, self.model_dump())

    def changed(self, **changes: Any) -> FewShotSettings:
        """The same with other values; None changes nothing."""
        given = {name: value for name, value in changes.items() if value is not None}
        return FewShotSettings.of(self.model_dump() | given)

    @property
    def label(self) -> str:
        """Name of the method."""
        return f"{self.algorithm}+sharing" if self.share else self.algorithm

    @property
    def name(self) -> str:
        """Short name for folders and titles."""
        return f"{Path(self.data).stem}-{self.ways}way-{self.shots}shot-{self.label}"


def settings_for(
    algorithm: str | None = None, *, preset: str | None = None, **chosen: Any
) -> FewShotSettings:
    """The algorithm's own settings, over them a preset's, over them what was chosen (not None).

    Without an algorithm: the preset's, or maml. A chosen value may be text, as in key=value.
    """
    chosen = {name: value for name, value in chosen.items() if value is not None}
    found = find_preset(preset) if preset is not None else None
    algorithm = algorithm or (found.algorithm if found else "maml")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"`algorithm` is {algorithm!r}: choose one of {', '.join(ALGORITHMS)}.")
    if found is not None and found.algorithm != algorithm:
        raise ValueError(f"The preset {preset!r} is for {found.algorithm}, not for {algorithm}.")
    values = ALGORITHMS[algorithm] | (found.settings if found else {})
    if "minutes" in chosen and "iterations" not in chosen:
        values = values | {"iterations": None}
    none = {name: None if value in ("none", "null") else value for name, value in chosen.items()}
    return FewShotSettings.of(values | none | {"algorithm": algorithm})


def parse_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """The settings in `key=value` texts, as text: `FewShotSettings` checks names and values."""
    found = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        name = key.strip().replace("-", "_")
        if not equals or not name:
            raise ValueError(
                f"The override {override!r} has no `=`: write key=value, e.g. inner_lr=0.05."
            )
        found[name] = value.strip()
    return found


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    given = first.get("input")
    details = first.get("ctx", {})
    if first["type"] == "extra_forbidden":
        return f"There is no setting {field!r}: {nearest(field, FewShotSettings.model_fields)}"
    if first["type"] == "literal_error":
        options = get_args(FewShotSettings.model_fields[field].annotation)
        return f"`{field}` is {given!r}: choose one of {', '.join(options)}."
    if first["type"] == "greater_than":
        return f"`{field}` is {given}: it must be above {details['gt']:g}."
    if first["type"] == "greater_than_equal":
        return f"`{field}` is {given}: it must be at least {details['ge']}."
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"`{field}` is {given!r}: {message[:1].lower()}{message[1:]}." if field else f"{message}."
