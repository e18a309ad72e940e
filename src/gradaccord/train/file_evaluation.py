"""`gradaccord evaluate`: a model on a labelled file; its scores and errors, as JSON or CSV."""

from __future__ import annotations

import csv
from pathlib import Path

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.runs.versioned import Versioned
from gradaccord.tasks.error_analysis import Analysis, analyse
from gradaccord.tasks.evaluation import evaluate
from gradaccord.tasks.intervals import Interval, intervals
from gradaccord.tasks.references import Reference, reference
from gradaccord.train.predict import BATCH, Predictor


class FileEvaluation(Versioned):
    """The scores and errors of a model on a file. Scores are in percent, `metric` is the main one."""

    model: str
    task: str
    kind: str
    file: str
    examples: int  # that are labelled
    unlabelled: int
    metric: str
    scores: dict[str, Interval]
    reference: Reference
    errors: Analysis

    def save(self, path: Path) -> None:
        """Write everything as JSON, or the scores as CSV, by the path's ending."""
        if path.suffix.lower() == ".json":
            self.write_file(path)
            return
        if path.suffix.lower() != ".csv":
            raise ValueError(f"--out is {path}: give a file that ends in .json or .csv.")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["metric", "percent", "low", "high", "chance", "majority"])
            for metric, own in self.scores.items():
                main = (self.reference.chance, self.reference.majority) if metric == self.metric else ()
                writer.writerow([metric, own.value, own.low, own.high, *(main or ("", ""))])


def evaluate_file(
    predictor: Predictor,
    model: Path,
    file: Path,
    *,
    worst: int = 10,
    watch: Watch = NOBODY,
) -> FileEvaluation:
    """Read a file, predict and score. worst: how many errors are kept."""
    task = predictor.task
    examples = predictor.labelled(file)
    known = sum(task.gold(example) is not None for example in examples)
    if not known:
        raise ValueError(
            f"{file}: no example has a label: name its column in --columns, or use `predict`."
        )
    encoded = task.encode(examples, predictor.tokens)
    found = evaluate(
        predictor.model,
        predictor.name,
        task,
        examples,
        encoded,
        batch_size=BATCH,
        progress=watch.counter("predicting", len(encoded)),
    )
    return FileEvaluation(
        model=str(model),
        task=predictor.name,
        kind=task.kind,
        file=str(file),
        examples=known,
        unlabelled=len(examples) - known,
        metric=task.metric,
        scores=intervals(
            task,
            examples,
            found.predictions,
            watch=watch,
        ),
        reference=reference(task, file.name, examples, found.predictions, found.scores),
        errors=analyse(task, examples, found.predictions, rows=found.rows, worst=worst),
    )
