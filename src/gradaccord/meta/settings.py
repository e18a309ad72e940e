"""Settings of a few-shot run: one model that options, presets and key=value overrides fill."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gradaccord.meta.algorithms import ALGORITHMS, FIRST_ORDER, SHARE, find_algorithm
from gradaccord.meta.presets import find_preset
from gradaccord.runs.config_files import ConfigError, checked, own_config
from gradaccord.runs.config_sections import Count, Positive
from gradaccord.runs.files import read_object, write_json

SETTINGS = "settings.json"
LIMITS = ("iterations", "minutes", "test_tasks")  # which may change when a run is resumed


class FewShotSettings(BaseModel):
    """One run. Fields left at None follow another: train_shots = shots, evaluation_steps = inner_steps.

    The command line has an option for every field, with its description.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = Field(
        "glyphs",
        description="A named set, or a folder or zip of images: train/, val/, test/ with a folder for "
        "each class, or class folders alone, which are split 64/16/20 (at least 3 x ways of them).",
    )
    data_dir: str | None = Field(None, description="Where the named sets are: DIR/omniglot and so on.")
    size: int | None = Field(
        None,
        ge=16,
        description="Resize the images to this many pixels a side. Default: as they are; own images of "
        "several shapes become squares of at most 84.",
    )
    algorithm: str = Field(
        "maml",
        description=f"One of {', '.join(ALGORITHMS)}. maml differentiates through the inner steps; "
        "fomaml leaves that out (about half of the time); reptile and dotprod need no queries.",
    )
    share: bool = Field(
        False,
        description=f"Gradient sharing (Chang & Lipson 2020) on {', '.join(SHARE)}: tasks of a batch "
        "also follow a running mean of their gradients. Off unless a preset has it.",
    )
    ways: int = Field(5, ge=2, description="Classes of a task.")
    shots: Count = Field(1, description="Labelled examples of each class to adapt to.")
    train_shots: Count | None = Field(None, description="Shots in training, if they differ.")
    queries: Count = Field(
        5, description="Examples of each class to measure the adaptation on, in training."
    )
    tasks: Count = Field(4, description="Tasks a meta-update is averaged over.")
    inner_lr: Positive = Field(
        0.1,
        description="Step size of adaptation, on a loss that is a MEAN over examples. A rate published "
        "for a sum over the ways (Finn's 0.4) must be multiplied by the ways (2.0).",
    )
    inner_steps: Count = Field(
        3, description="Steps of adaptation in training; time grows in proportion."
    )
    evaluation_steps: int | None = Field(None, ge=0, description="Steps in evaluation, if they differ.")
    inner_batch: Count | None = Field(
        None, description="Examples of a mini-batch of reptile and dotprod in training."
    )
    evaluation_batch: Count | None = Field(None, description="Examples of one in evaluation.")
    precision: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="bf16: inner steps of reptile and fomaml round activations to bfloat16, which is "
        "faster on processors that have it; weights and moments stay in float32.",
    )
    optimizer: Literal["adam", "sgd"] = Field("adam", description="Of the meta-updates: adam or sgd.")
    outer_lr: Positive = Field(1e-3, description="Rate of the outer optimiser.")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="Of the outer rate: constant, linear (to 0) or cosine (to a hundredth)."
    )
    clip: Positive | None = Field(None, description="Bound of each element of the meta-gradient.")
    align: float = Field(0.1, description="Weight of the dot product in dotprod.")
    align_cap: float = Field(
        0.1,
        gt=0,
        allow_inf_nan=True,
        description="Greatest length of that term, as a multiple of the plain gradient's; inf: any.",
    )
    epoch: Count = Field(500, description="Iterations of an epoch, by which maml++ anneals.")
    multi_step_epochs: int = Field(
        10, ge=0, description="Epochs in which maml++ also counts the losses of earlier inner steps."
    )
    network: Literal["auto", "maml", "reptile", "maml++"] = Field(
        "auto",
        description="Conv-4 as in the code of maml, reptile or maml++, or auto (by image size).",
    )
    filters: Count | None = Field(
        None,
        description="Channels of Conv-4. Default: those of the network, 64 for characters, 32 or 48 "
        "for photos.",
    )
    iterations: Count | None = Field(
        3000, description="Meta-updates; if only minutes are given, there is no bound."
    )
    minutes: Positive | None = Field(
        None,
        description="Stop after this much training time, for comparisons at equal time. Reading the "
        "pictures, validations and the final test are not counted: the command takes longer. Schedules "
        "then follow the clock.",
    )
    clock: Literal["wall", "processor"] = Field(
        "wall",
        description="What the minutes measure: wall, or processor, which does not count other programs "
        "on a busy machine.",
    )
    validate_every: Count = Field(
        100, description="Iterations between two validations; each also saves."
    )
    validation_tasks: Count = Field(100, description="Fixed tasks of a validation.")
    test_tasks: Count = Field(600, description="Fixed tasks of the final test.")
    test_queries: Count = Field(
        5,
        description="Queries of each class in validation and test; the interval is over tasks, so more "
        "queries hardly narrow it.",
    )
    curve_tasks: Count = Field(50, description="Test tasks of the accuracy after every inner step.")
    transductive: bool = Field(
        False,
        description="Let the queries of a task share batch statistics in evaluation. It makes tasks "
        "easier: never compare such a number with one obtained without. Default: non-transductive.",
    )
    keep: Count = Field(5, description="Best checkpoints that are kept, for the ensemble.")

    @model_validator(mode="after")
    def _agree(self) -> FewShotSettings:
        find_algorithm(self.algorithm)
        if self.share and self.algorithm not in SHARE:
            raise ValueError(
                f"`share` adds gradient sharing to {', '.join(SHARE)}, not to {self.algorithm}."
            )
        if self.precision == "bf16" and self.algorithm not in FIRST_ORDER:
            raise ValueError(
                f"`precision` is bf16, and {self.algorithm} needs second derivatives, which would be "
                f"mostly rounding: leave it out, or take {' or '.join(FIRST_ORDER)}."
            )
        if self.iterations is None and self.minutes is None:
            raise ValueError("`iterations` and `minutes` are both left out: give the run an end.")
        return self

    @classmethod
    def of(cls, values: dict[str, Any], source: str = "The few-shot settings") -> FewShotSettings:
        """Settings from plain values; the first mistake is one sentence. source: for that."""
        return checked(cls, values, {}, source, "algorithm")

    @classmethod
    def read(cls, folder: Path) -> FewShotSettings:
        """Read the settings that `save` wrote."""

        def read(path: Path) -> FewShotSettings:
            content = read_object(path)
            if missing := {"data", "algorithm"} - content.keys():
                raise ConfigError(f"it does not name {' and '.join(sorted(missing))}")
            return cls.of(content, str(path))

        return own_config(folder / SETTINGS, read)

    def save(self, folder: Path) -> None:
        """Write `settings.json` into a run's folder."""
        write_json(folder / SETTINGS, self.model_dump())

    def changed(self, **changes: Any) -> FewShotSettings:
        """A copy with other values; a value of None changes nothing."""
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

    Without an algorithm: the preset's, or maml. MAML's presets are FOMAML's, too. A chosen value may be
    text, as in key=value.
    """
    chosen = {name: value for name, value in chosen.items() if value is not None}
    found = find_preset(preset) if preset is not None else None
    algorithm = algorithm or (found.algorithm if found else "maml")
    start = dict(find_algorithm(algorithm).start)
    if found is not None and algorithm not in found.algorithms:
        raise ValueError(f"The preset {preset!r} is for {found.algorithm}, not for {algorithm}.")
    values = start | (found.settings if found else {})
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
