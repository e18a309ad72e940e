"""Before the first run: the budget, a check that every method can be built, and the list of runs."""

from __future__ import annotations

import copy
import dataclasses
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradaccord.compare.processes import Run
from gradaccord.compare.specs import Spec
from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.train.config import Config, MethodConfig, ProbeConfig
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.phase import EPOCHS, batches_of
from gradaccord.train.run import make_accelerator
from gradaccord.train.setup import Problem

BASE_MB = 700.0  # of a process with torch and transformers, before any weights


@dataclass(frozen=True)
class Setup:
    """A comparison that is ready to run."""

    runs: list[Run]
    gradients: int  # batch gradients that each run may spend
    memory_mb: float  # that a run is likely to take


def set_up(base: Config, specs: Sequence[Spec], seeds: int, folder: Path, problem: Problem) -> Setup:
    """Every method on every seed with one budget; what cannot be built is a ValueError."""
    gradients = budget_of(base, problem)
    check_builds(base, specs, gradients, problem)
    weights = sum(p.numel() * p.element_size() for p in problem.model.parameters())
    # weights, two moments, one gradient a task, and as much as one for activations
    memory = BASE_MB + 1.5 * (4 + len(problem.trained)) * weights / 2**20
    return Setup(list_runs(base, specs, seeds, gradients, folder), gradients, memory)


def budget_of(config: Config, problem: Problem) -> int:
    """Batch gradients of one run.

    `train.gradients` as it is; epochs and steps by what plain multi-task training would spend on
    them: a batch gradient a batch, and a batch of every task a step.
    """
    train = config.train
    if train.gradients is not None:
        return train.gradients
    if train.steps is not None:
        return train.steps * len(problem.trained)
    sizes = problem.batch_sizes
    batches = sum(
        len(batches_of(problem.prepared[name], sizes.get(name, train.batch_size), 0))
        for name in problem.trained
    )
    return math.ceil((train.epochs or EPOCHS) * batches)


def check_builds(base: Config, specs: Sequence[Spec], gradients: int, problem: Problem) -> None:
    """Set every run up as far as its first step, so that a mistake costs no minutes of training.

    A method that cannot be built is named as it was given. `problem` stays as it is: each method gets
    a copy of its model.
    """
    accelerator = make_accelerator(base)
    no_probes = ProbeConfig(cosine=False, distance=False)
    for spec in specs:
        config = spec.config(base, base.train.seed, gradients).model_copy(update={"probe": no_probes})
        if spec.method == SINGLE_TASK:  # each task's own run is one of `sum`
            config = config.model_copy(update={"method": MethodConfig(name="sum"), "sampler": None})
        own = dataclasses.replace(problem, model=copy.deepcopy(problem.model))
        try:
            with tempfile.TemporaryDirectory() as folder:
                loop = TrainingLoop(config, own, Path(folder), accelerator)
                if len(loop.phases) > 1:  # behind a warm start, which is a plain sum
                    loop.begin(len(loop.phases) - 1)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"The method {str(spec)!r} cannot be built: {error}") from error
        finally:
            accelerator.free_memory()


def list_runs(
    base: Config, specs: Sequence[Spec], seeds: int, gradients: int, folder: Path
) -> list[Run]:
    """Every method on every seed, seeds first: a comparison that is cut short is still one."""
    return [
        Run(spec, seed, folder / spec.folder / f"seed-{seed}", spec.config(base, seed, gradients))
        for seed in range(seeds)
        for spec in specs
    ]
