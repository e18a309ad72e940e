"""The outcome of a comparison as types, and `comparison.json`, where it is kept."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from gradaccord.compare.statistics import Difference, Mean, Number
from gradaccord.runs.files import read_json, write_json

FILE = "comparison.json"
VERSION = 1  # of the file; gradaccord 0.1 wrote the same without a version
AVERAGE = "average"  # over the trained tasks, beside the tasks themselves


class Costs(BaseModel):
    """Relative to the baseline, median over seeds."""

    model_config = ConfigDict(frozen=True)

    seconds: Number
    gradients: Number
    memory_mb: Number


class Standing(BaseModel):
    """How one method fared."""

    model_config = ConfigDict(frozen=True)

    method: str  # as `Spec.parse` reads it
    is_control: bool
    seeds: tuple[int, ...]  # those that finished
    scores: dict[str, Mean]  # task -> main metric in percent, and `AVERAGE`
    vs_baseline: Difference  # of the average, as is `vs_control`
    control: str | None  # the strongest of its controls
    vs_control: Difference | None
    train_loss: Mean  # of the last steps, mean over tasks
    cosine: Mean  # between the tasks' gradients at the last evaluation
    distance: Mean  # from the pretrained weights
    collapsed: tuple[int, ...]  # seeds that learned less than half of what the baseline did
    costs: Costs
    missing: dict[int, str]  # seed -> why the run has no results

    @property
    def label(self) -> str:
        """The name, and whether it is a control."""
        return self.method + (" (control)" if self.is_control else "")

    @property
    def average(self) -> Mean:
        """Over the trained tasks."""
        return self.scores[AVERAGE]

    @property
    def beats_both(self) -> bool:
        """Clearly better than the baseline and than its control, if it has one."""
        return self.vs_baseline.clear_gain and (self.vs_control is None or self.vs_control.clear_gain)


class Comparison(BaseModel):
    """All methods, the baseline first."""

    model_config = ConfigDict(frozen=True)

    version: int = VERSION
    split: str  # that the scores are of
    tasks: tuple[str, ...]
    metrics: dict[str, str]  # task -> main metric
    findings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    methods: tuple[Standing, ...]

    @property
    def baseline(self) -> Standing:
        """What all are compared with."""
        return self.methods[0]

    @property
    def tests(self) -> dict[tuple[str, str], Difference]:
        """Every comparison once, by who is compared with whom; the baseline may be the control."""
        found = {(own.method, self.baseline.method): own.vs_baseline for own in self.methods[1:]}
        for own in self.methods:
            if own.control is not None and own.vs_control is not None:
                found[own.method, own.control] = own.vs_control
        return found

    @property
    def tests_with_p(self) -> int:
        """How many tests the p values are corrected for."""
        return sum(not difference.no_p for difference in self.tests.values())


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Write `comparison.json` into a folder."""
    write_json(folder / FILE, comparison.model_dump(mode="json"))
    return folder / FILE


def read_comparison(path: Path) -> Comparison:
    """What `write_comparison` wrote, also that of gradaccord 0.1; anything else is a ValueError."""
    try:
        content = read_json(path)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged ({error}): run `gradaccord compare` again.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object: run `gradaccord compare` again.")
    if content.get("version", VERSION) != VERSION:
        raise ValueError(
            f"{path} has version {content['version']!r}, this gradaccord reads version {VERSION}: "
            "run `gradaccord compare` again, or upgrade."
        )
    try:
        return Comparison.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"{path} is no comparison (`{where}`: {first['msg'].lower()}): run `gradaccord compare` "
            "again."
        ) from error
