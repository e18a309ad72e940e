"""The results of a comparison as types, and the file `comparison.json` that holds them."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gradaccord.compare.budget import EqualBudget
from gradaccord.compare.statistics import Difference, Mean, Number
from gradaccord.runs.versioned import Versioned

AVERAGE = "average"  # over the trained tasks, beside the tasks themselves
UNSEEN = "zero-shot average"  # over those that were never trained on, if there are any


class NoSkill(BaseModel):
    """Scores without skill, in percent: of random guesses, and of always the same prediction."""

    model_config = ConfigDict(frozen=True)

    chance: float
    majority: float


class Costs(BaseModel):
    """Relative to the baseline, median over seeds."""

    model_config = ConfigDict(frozen=True)

    seconds: Number
    processor: Number = math.nan  # seconds of training, evaluation and probes
    gradients: Number
    memory_mb: Number


class Standing(BaseModel):
    """The results of one method."""

    model_config = ConfigDict(frozen=True)

    method: str  # as `Spec.parse` reads it
    is_control: bool
    seeds: tuple[int, ...]  # of the runs that finished
    scores: dict[str, Mean]  # task -> main metric in percent, and `AVERAGE` and `UNSEEN`
    vs_baseline: Difference  # of the average, as is `vs_control`
    control: str | None  # the strongest of its controls
    vs_control: Difference | None
    train_loss: Mean  # of the last steps, mean over tasks
    cosine: Mean  # between the tasks' gradients at the last evaluation
    distance: Mean  # from the pretrained weights
    collapsed: tuple[int, ...]  # seeds that learned less than half of what the baseline did
    costs: Costs
    missing: dict[int, str]  # seed -> why the run has no results
    marks: dict[str, dict[int, str]] = {}  # task -> seed -> `Reference.mark`, where there is one

    @property
    def label(self) -> str:
        """The name, and whether it is a control."""
        return self.method + (" (control)" if self.is_control else "")

    @property
    def average(self) -> Mean:
        """Over the trained tasks."""
        return self.scores[AVERAGE]

    def mark(self, task: str) -> str:
        """Why its score on a task shows no skill, with the seeds; empty where it does."""
        by_mark: dict[str, list[int]] = {}
        for seed, mark in self.marks.get(task, {}).items():
            by_mark.setdefault(mark, []).append(seed)
        return ", ".join(
            f"{mark} (seed {', '.join(map(str, seeds))})" for mark, seeds in by_mark.items()
        )

    def marked(self, task: str) -> str:
        """Its score on a task, with a star if it shows no skill."""
        shown = str(self.scores.get(task, "–"))
        return f"{shown} *" if self.marks.get(task) else shown

    @property
    def beats_both(self) -> bool:
        """Clearly better than the baseline and than its control, if it has one."""
        return self.vs_baseline.clear_gain and (self.control is None or self.beats_control)

    @property
    def beats_control(self) -> bool:
        """Whether it is clearly better than its control; false without a test."""
        return self.vs_control is not None and self.vs_control.clear_gain

    @property
    def verdict(self) -> str:
        """The verdict in two or three words, by the corrected p values."""
        if self.vs_baseline.no_p or not self.vs_baseline.count:
            return "no test"
        if not self.vs_baseline.clear:
            return "not clear"
        if not self.vs_baseline.clear_gain:
            return "worse"
        if self.beats_both:
            return "better"
        untested = self.vs_control is None or bool(self.vs_control.no_p)
        return "control not tested" if untested else "control as good"


class Comparison(Versioned):
    """All methods, the baseline first. Files of 0.1 have the same fields."""

    FILE = "comparison.json"
    model_config = ConfigDict(frozen=True)

    split: Literal["dev", "test"]  # that the scores are of
    budget: EqualBudget | None = None  # of every run; None in files of 0.1: batch gradients
    tasks: tuple[str, ...]
    metrics: dict[str, str]  # task -> main metric
    findings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    methods: tuple[Standing, ...]
    references: dict[str, NoSkill] = Field(default_factory=dict)  # by task and average; not in 0.1

    @model_validator(mode="after")
    def _whole(self) -> Comparison:
        """There is a baseline, every task has its metric, and every method its average."""
        if not self.methods:
            raise ValueError("`methods` is empty")
        for task in self.tasks:
            if task not in self.metrics:
                raise ValueError(f"the task {task!r} has no metric")
        for own in self.methods:
            if AVERAGE not in own.scores:
                raise ValueError(f"the method {own.method!r} has no average")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The tasks, and the average of those never trained on, if there are any."""
        return (*self.tasks, *([UNSEEN] if UNSEEN in self.baseline.scores else []))

    @property
    def baseline(self) -> Standing:
        """The method that all are compared with."""
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

    @property
    def verdicts_by(self) -> str:
        """What verdicts go by, in words."""
        count = self.tests_with_p
        if not count:
            return "no difference has a p value, so that no method is called better or worse"
        tests = f"all {count} tests" if count > 1 else "the one test"
        return f"verdicts go by p below 0.05, corrected by Holm for {tests}"
