"""Why training cannot go on: losses and gradients that are not finite, with task and examples named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from gradaccord.core.report import StepReport
from gradaccord.runs.exceptions import TrainingError
from gradaccord.train.problem import Problem
from gradaccord.train.step_batches import StepBatch


def tasks_not_finite(report: StepReport, *, scaled: bool) -> list[str]:
    """The tasks whose loss or gradient is inf or NaN. scaled: float16, whose scaler skips the step."""
    losses_finite = bool(torch.isfinite(report.losses).all())
    if losses_finite and (report.finite or scaled):
        return []
    return [
        task
        for task, loss, norm in zip(report.tasks, report.losses, report.norms, strict=True)
        if not math.isfinite(loss) or not math.isfinite(norm)
    ] or list(report.tasks)


def not_finite(
    tasks: Sequence[str], drawn: Sequence[StepBatch], step: int, problem: Problem, kept: Sequence[Path]
) -> TrainingError:
    """The error that names the step, the first of these tasks with its examples, and a checkpoint."""
    rows = next((one for one in drawn if one.name in tasks), drawn[0])
    prepared = problem.prepared[rows.task]
    examples = prepared.encoded["train"].example[list(rows.rows)].tolist()
    ids = [getattr(prepared.splits["train"][i], "id", "") or str(i) for i in examples]
    return TrainingError(
        f"The loss or gradient of {rows.task!r} is not finite at step {step} (examples "
        f"{', '.join(ids[:8])}{', ...' if len(ids) > 8 else ''}): lower train.lr or look at these; "
        + (f"the checkpoint before is {kept[-1]}." if kept else "no checkpoint was written yet.")
    )
