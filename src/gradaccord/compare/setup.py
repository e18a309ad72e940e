"""Sets up a comparison: its budget, a check that every method can be built, the list of runs."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradaccord.compare.budget import BudgetKind, EqualBudget, budget_of
from gradaccord.compare.processes import WANTED, Run
from gradaccord.compare.specs import Spec
from gradaccord.methods.registry import SINGLE_TASK, find_method
from gradaccord.runs.files import RunFolderError
from gradaccord.train.config import Config, ProbeConfig
from gradaccord.train.config_file import read_own_config
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.problem import Problem
from gradaccord.train.run import make_accelerator

BASE_MB = 700.0  # of a process with torch and transformers, before any weights


@dataclass(frozen=True)
class Setup:
    """A comparison that is ready to run."""

    runs: list[Run]
    budget: EqualBudget  # of each run
    memory_mb: float  # that a run is likely to take


def set_up(
    base: Config,
    specs: Sequence[Spec],
    seeds: int,
    folder: Path,
    problem: Problem,
    budget: BudgetKind = "gradients",
) -> Setup:
    """Every method on every seed with one budget; what cannot be built is a ValueError.

    budget: what is equal: epochs (batches seen), gradients, or seconds (of processors, in training).
    """
    equal = budget_of(base, problem, budget)
    _check_same_budget(folder, equal)
    check_builds(base, specs, equal, problem)
    runs, size = list_runs(base, specs, seeds, equal, folder), Size.of(problem)
    for run in runs:
        run.memory_mb = size.memory_mb(run.config)
    return Setup(runs, equal, max(run.memory_mb for run in runs))


@dataclass(frozen=True)
class Size:
    """What the memory of a run depends on, besides its method."""

    weights_mb: float
    tasks: int  # that are trained

    @classmethod
    def of(cls, problem: Problem) -> Size:
        """The size of a problem's model, and its tasks."""
        weights = sum(p.numel() * p.element_size() for p in problem.model.parameters())
        return cls(weights / 2**20, len(problem.trained))

    def memory_mb(self, config: Config) -> float:
        """The memory that a run is likely to take, in MB."""
        tasks = 1 if config.method.name == SINGLE_TASK else self.tasks
        method = config.with_class().method
        copies = find_method(method.name).copies_with(tasks, method.options)
        # weights, a gradient, two moments, what the method keeps, and as much as one for activations
        return BASE_MB + 1.5 * (5 + copies) * self.weights_mb


def check_builds(base: Config, specs: Sequence[Spec], budget: EqualBudget, problem: Problem) -> None:
    """Set every run up as far as its first step, so that a mistake shows before any training.

    A method that cannot be built is named as it was given. `problem` stays as it is: each method gets
    a copy of its model.
    """
    accelerator = make_accelerator(base)
    no_probes = ProbeConfig(cosine=False, distance=False)
    for spec in specs:
        config = spec.config(base, base.train.seed, budget).with_class()
        config = config.model_copy(update={"probe": no_probes})
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
    base: Config, specs: Sequence[Spec], seeds: int, budget: EqualBudget, folder: Path
) -> list[Run]:
    """Every method on every seed, seed by seed: an interrupted comparison still has all methods."""
    return [
        Run(spec, seed, folder / spec.folder / f"seed-{seed}", spec.config(base, seed, budget))
        for seed in range(seeds)
        for spec in specs
    ]


def _check_same_budget(folder: Path, budget: EqualBudget) -> None:
    """Refuse a folder whose runs had another budget."""
    run = min(folder.glob(f"*/seed-*/{WANTED}"), default=None)
    before = None if run is None else EqualBudget.of(read_own_config(run).train)
    if before is not None and before != budget:
        raise RunFolderError(
            f"The budget is {budget.text}, and {folder} holds runs of {before.text}: ask for the same "
            "budget, or choose another --out."
        )
