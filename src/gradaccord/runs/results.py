"""The results of a training run: the types of `results.json`, which is read and written only here."""

from __future__ import annotations

import statistics
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gradaccord.runs.files import RESULTS
from gradaccord.runs.versioned import Versioned
from gradaccord.tasks.data_card import DataCard
from gradaccord.tasks.error_analysis import Confusion, Histogram, Wrong
from gradaccord.tasks.references import Reference
from gradaccord.tasks.task import main_score

Scores = dict[str, dict[str, float]]  # task -> metric -> percent


class Cost(BaseModel):
    """What a run cost. None: not measured by the version that wrote the file.

    seconds: wall time from the first step to the last, evaluation and probes included.
    cpu_seconds: of the whole process; None if it was resumed.
    The other seconds are processor seconds of all sessions; on a GPU they are wall seconds.
    """

    seconds: float
    cpu_seconds: float | None
    steps: int
    gradients: float  # batch gradients
    memory_mb: float
    batches: int | None = None
    training_seconds: float | None = None
    evaluation_seconds: float | None = None
    probe_seconds: float | None = None

    @property
    def processor(self) -> float | None:
        """Processor seconds of training, evaluation and probes together."""
        parts = (self.training_seconds, self.evaluation_seconds, self.probe_seconds)
        return None if None in parts else sum(part for part in parts if part is not None)


class TaskCosine(BaseModel):
    """Cosines between the tasks' gradients, and the mean off the diagonal."""

    tasks: list[str]
    matrix: list[list[float]]
    mean: float
    losses: dict[str, float] = {}

    @model_validator(mode="after")
    def _square(self) -> TaskCosine:
        if [len(row) for row in self.matrix] != [len(self.tasks)] * len(self.tasks):
            raise ValueError("the matrix must have a row and a column for each task")
        return self


class Distance(BaseModel):
    """How far the shared weights are from the pretrained ones."""

    total: float
    layers: dict[str, float] = {}


class Measured(BaseModel):
    """What is measured besides the scores; None where a probe is off."""

    train_loss: dict[str, float] = {}
    task_cosine: TaskCosine | None = None
    distance: Distance | None = None
    masked_lm: dict[str, float] | None = None  # loss by text


class EvaluationRecord(Measured):
    """One evaluation on dev during training, as the log keeps it, too."""

    event: Literal["evaluation"] = "evaluation"
    step: int
    gradients: float
    seconds: float
    evaluation_seconds: float = 0.0
    scores: Scores
    average: float  # of the trained tasks' main metrics

    def to_json(self) -> dict[str, Any]:
        """Plain values, as a line of the log: when and how good, then what was measured."""
        own = self.model_dump(exclude_none=True)
        return {name: own.pop(name) for name in EvaluationRecord.__annotations__} | own


class TaskErrors(BaseModel):
    """The errors of one task on the last split it was evaluated on."""

    split: str
    examples: int
    wrong: int
    worst: list[Wrong] = []
    confusion: Confusion | None = None
    histogram: Histogram | None = None


class MethodUsed(BaseModel):
    """A method's name and, beside it, its options, as in the configuration."""

    model_config = ConfigDict(extra="allow")

    name: str


class Results(Versioned):
    """The results of one run, at its best weights on dev. Files of 0.1 have the same fields."""

    FILE = RESULTS

    finished: str
    method: MethodUsed
    regularize: list[str]
    seed: int
    metrics: dict[str, str]  # task -> its main metric; with a "-" before it if lower is better
    kinds: dict[str, str]
    trained: list[str]  # the tasks; others were only evaluated
    dev: Scores
    test: Scores
    best_step: int
    last: Measured  # at the last evaluation
    evaluations: list[EvaluationRecord]
    errors: dict[str, TaskErrors]
    notes: dict[str, dict[str, dict[str, int]]]  # task -> split -> what -> count
    overlaps: list[str]
    cost: Cost
    weights: dict[str, float] = Field(default_factory=dict)  # of tasks whose static weight is not 1
    stopped: dict[str, int] = Field(default_factory=dict)  # task -> the step that its patience ended at
    # Task -> scores of a model without skill: on its last split; and on dev if that is test.
    references: dict[str, Reference] = Field(default_factory=dict)
    dev_references: dict[str, Reference] = Field(default_factory=dict)
    cards: dict[str, DataCard] = Field(default_factory=dict)  # of the tasks' data

    @model_validator(mode="after")
    def _whole(self) -> Results:
        """Check that every task has its main metric and a score by it."""
        if not self.trained:
            raise ValueError("`trained` names no task")
        scored = [self.dev, self.test, *(one.scores for one in self.evaluations)]
        for task in {task: None for scores in scored for task in scores}:
            if task not in self.metrics:
                raise ValueError(f"the task {task!r} has no metric")
            main = self.metrics[task].removeprefix("-")
            if any(main not in scores[task] for scores in scored if task in scores):
                raise ValueError(f"the task {task!r} has no score by {self.metrics[task]!r}")
        return self

    @property
    def method_name(self) -> str:
        """The method's name, as in the configuration."""
        return self.method.name

    @property
    def method_options(self) -> dict[str, Any]:
        """The method's options, as in the configuration."""
        return dict(self.method.model_extra or {})

    @property
    def split(self) -> str:
        """The split that is compared: test where all trained tasks have it, else dev."""
        return "test" if all(task in self.test for task in self.trained) else "dev"

    @property
    def train_loss(self) -> float:
        """Mean training loss over tasks at the last evaluation; NaN if there was none."""
        losses = self.last.train_loss.values()
        return statistics.fmean(losses) if losses else float("nan")

    def scores(self, split: str) -> Scores:
        """Every task's scores on dev or test."""
        return {"dev": self.dev, "test": self.test}[split]

    def main_scores(self, split: str) -> dict[str, float]:
        """Every task's main metric on a split, in percent."""
        return {task: main_score(own, self.metrics[task]) for task, own in self.scores(split).items()}

    def scores_shown(self, split: str) -> Scores:
        """Every task's scores with the main one first, as in `main_scores`."""
        main = self.main_scores(split)
        return {
            task: {self.metrics[task]: main[task]}
            | {k: v for k, v in own.items() if k != self.metrics[task].removeprefix("-")}
            for task, own in self.scores(split).items()
        }

    def average(self, split: str) -> float:
        """Mean over the trained tasks' main metrics on a split; NaN if none was evaluated there."""
        scores = self.main_scores(split)
        known = [scores[task] for task in self.trained if task in scores]
        return statistics.fmean(known) if known else float("nan")

    def unseen_average(self, split: str) -> float:
        """Mean main metric of the tasks that were never trained on; NaN if there is none."""
        scores = self.main_scores(split)
        unseen = [value for task, value in scores.items() if task not in self.trained]
        return statistics.fmean(unseen) if unseen else float("nan")

    def reference(self, task: str, split: str) -> Reference | None:
        """Chance and majority beside a task's score on a split; None in files that lack them."""
        known = (self.references.get(task), self.dev_references.get(task))
        return next((own for own in known if own is not None and own.split == split), None)
