"""The budget that every run of a comparison gets, in batch gradients."""

from __future__ import annotations

import math

from gradaccord.train.config import Config
from gradaccord.train.phase import EPOCHS, batches_of
from gradaccord.train.setup import Problem

BASE_MB = 700.0  # of a process with torch and transformers, before any weights


def budget_of(config: Config, problem: Problem) -> tuple[int, float]:
    """Batch gradients of one run, and the memory in MB that one is likely to take.

    `train.gradients` as it is; epochs and steps by what plain multi-task training would spend on
    them: a batch gradient a batch, and a batch of every task a step.
    """
    train = config.train
    batches = {
        name: len(
            batches_of(problem.prepared[name], problem.batch_sizes.get(name, train.batch_size), 0)
        )
        for name in problem.trained
    }
    if train.gradients is not None:
        gradients = train.gradients
    elif train.steps is not None:
        gradients = train.steps * len(batches)
    else:
        gradients = math.ceil((train.epochs or EPOCHS) * sum(batches.values()))
    weights = sum(p.numel() * p.element_size() for p in problem.model.parameters())
    copies = 4 + len(batches)  # weights, two moments, one gradient a task, and as much for activations
    return gradients, BASE_MB + 1.5 * copies * weights / 2**20
