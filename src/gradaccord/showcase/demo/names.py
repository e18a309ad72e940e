"""The second part of the demo: twelve languages, unseen ones and what is forgotten, by method."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradaccord.compare.runs import Run, Standing, execute, fitting_jobs, plan
from gradaccord.compare.specs import Spec, split_methods, with_controls
from gradaccord.compare.statistics import Difference, Mean
from gradaccord.compare.summary import AVERAGE, Row, Summary, summarise
from gradaccord.pretrain.characters import STEPS, Progress
from gradaccord.runs.results import main_scores
from gradaccord.showcase.demo.settings import BASELINE, FASTER, RECIPE, Settings
from gradaccord.train.config import Config


@dataclass(frozen=True)
class Names:
    """All runs, and what the pretrained encoder knew before any of them."""

    summary: Summary
    runs: Sequence[Run]
    gradients: int
    trained: tuple[str, ...]
    before: dict[str, float]  # text -> masked-character loss

    @property
    def unseen(self) -> tuple[str, ...]:
        """The languages that were never trained on."""
        return tuple(task for task in self.summary.tasks if task not in self.trained)

    def zero_shot(self, spec: Spec) -> dict[int, float]:
        """Seed -> mean accuracy on the unseen languages."""
        found = {}
        for run in self._finished(spec):
            scores = main_scores(run, self.summary.split)
            found[int(run["seed"])] = statistics.fmean(scores[task] for task in self.unseen)
        return found

    def forgotten(self, spec: Spec, seen: bool) -> dict[int, float]:
        """Seed -> rise of the masked-character loss by the end, mean over texts trained on or not."""
        texts = [text for text in self.before if (text in self.trained) == seen]
        return {
            int(run["seed"]): statistics.fmean(
                run["evaluations"][-1]["masked_lm"][text] - self.before[text] for text in texts
            )
            for run in self._finished(spec)
            if texts
        }

    def zero_shot_difference(self, spec: Spec) -> Difference:
        """To the baseline, on the unseen languages."""
        return Difference.between(self.zero_shot(spec), self.zero_shot(self.summary.rows[0].spec))

    def row(self, spec: Spec) -> Row:
        """Of the summary."""
        return next(row for row in self.summary.rows if row.spec == spec)

    def _finished(self, spec: Spec) -> list[Mapping[str, Any]]:
        return [run.results for run in self.runs if run.spec == spec and run.results is not None]


def wanted(settings: Settings) -> list[Spec]:
    """The baseline, the methods and their controls; a name that does not exist is an error."""
    specs = [Spec.parse(text) for text in split_methods(settings.methods)]
    return with_controls(specs, Spec.parse(BASELINE))


def recipe(settings: Settings) -> tuple[Config, int]:
    """The configuration of all runs, and the batch gradients that each may spend."""
    from gradaccord.train.config_file import read_config

    pretraining = [f"model={{name: characters, steps: {STEPS // FASTER}}}"] if settings.fast else []
    base = read_config(Path(RECIPE), pretraining)
    whole = settings.gradients or settings.shortened(base.train.gradients or 1)
    return base, whole


def pretrain(settings: Settings, show: Callable[[Progress], None]) -> None:
    """Pretrain the character encoder: a minute, once on a machine; `show` is not called after that."""
    from gradaccord.models.trunks.loading import load_trunk

    model = recipe(settings)[0].model
    load_trunk(model.name, **model.options, progress=show)


def compare_names(settings: Settings, show: Callable[[Standing], None]) -> Names:
    """Train every method on every seed, and sum up. Finished runs are reused."""
    from gradaccord.compare import tables
    from gradaccord.compare.budget import BASE_MB
    from gradaccord.compare.build_methods import check_builds
    from gradaccord.train.forgetting import Forgetting
    from gradaccord.train.setup import load_problem

    specs = wanted(settings)
    base, gradients = recipe(settings)
    problem = load_problem(base)
    check_builds(base, specs, gradients, problem)
    before = Forgetting(base, problem).measure()
    runs = plan(base, specs, settings.seeds, gradients, settings.out)
    execute(runs, data=None, jobs=fitting_jobs(None, BASE_MB), show=show)
    show(Standing(runs, math.nan))
    summary = summarise(runs)
    tables.write(summary, settings.out)
    return Names(summary, runs, gradients, problem.trained, before)


def average(names: Names, spec: Spec) -> Mean:
    """Over the trained languages."""
    return names.row(spec).scores[AVERAGE]
