"""The fourth part of the demo: names in twelve languages and in unseen ones, and what is forgotten."""

from __future__ import annotations

import signal
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from gradaccord.compare.comparison import Comparison
from gradaccord.compare.processes import Processes, Progress, Run, jobs_that_fit, run_all
from gradaccord.compare.setup import set_up
from gradaccord.compare.specs import Spec, parse_methods, with_controls
from gradaccord.compare.statistics import Difference
from gradaccord.compare.summary import summarise
from gradaccord.compare.tables import write_tables
from gradaccord.methods.registry import BASELINE
from gradaccord.models.trunks.pretrained_characters import (
    STEPS,
    CharacterProgress,
    pretrained_characters,
)
from gradaccord.runs.results import Results
from gradaccord.showcase.demo.settings import FASTER, GRADIENTS, RECIPE, DemoSettings
from gradaccord.train.config import Config
from gradaccord.train.config_file import read_config
from gradaccord.train.probes import Forgetting
from gradaccord.train.problem import load_problem


@dataclass(frozen=True)
class Names:
    """All runs, and what the pretrained encoder knew before any of them."""

    comparison: Comparison
    runs: Sequence[Run]
    trained: tuple[str, ...]
    before: dict[str, float]  # text -> masked-character loss

    def unseen_scores(self, method: str) -> dict[int, float]:
        """Seed -> mean accuracy on the languages that were never trained on."""
        unseen = [task for task in self.comparison.tasks if task not in self.trained]
        found = {}
        for seed, results in self._results(method).items():
            scores = results.main_scores(self.comparison.split)
            found[seed] = statistics.fmean(scores[task] for task in unseen)
        return found

    def unseen_vs_baseline(self, method: str) -> Difference:
        """The difference to the baseline on the languages that were never trained on."""
        baseline = self.unseen_scores(self.comparison.baseline.method)
        return Difference.between(self.unseen_scores(method), baseline)

    def forgotten(self, method: str, trained: bool) -> dict[int, float]:
        """Seed -> increase of the masked-character loss, mean over texts trained on or not."""
        texts = [text for text in self.before if (text in self.trained) == trained]
        found = {}
        for seed, results in self._results(method).items():
            losses = results.evaluations[-1].masked_lm or {}
            if texts:
                found[seed] = statistics.fmean(losses[text] - self.before[text] for text in texts)
        return found

    def _results(self, method: str) -> dict[int, Results]:
        """Seed -> results of a method's finished runs."""
        own = [run for run in self.runs if str(run.spec) == method]
        return {run.seed: run.results for run in own if run.results is not None}


def demo_methods(settings: DemoSettings) -> list[Spec]:
    """The baseline, the methods and their controls; a name that does not exist is an error.

    DotProd's control at a higher rate is left to `compare`: it takes as long as the method.
    """
    wanted = parse_methods(settings.methods)
    specs = with_controls(wanted, Spec.parse(BASELINE))
    return [spec for spec in specs if spec.rate == 1 or spec in wanted]


def recipe(settings: DemoSettings) -> Config:
    """The configuration of all runs, with the batch gradients that each may spend."""
    pretraining = [f"model={{name: characters, steps: {STEPS // FASTER}}}"] if settings.fast else []
    base = read_config(Path(RECIPE), pretraining)
    gradients = settings.gradients or settings.shortened(GRADIENTS)
    short = {"gradients": gradients, "evaluate_every": 1.0}  # once, at the end
    return base.model_copy(update={"train": base.train.model_copy(update=short)})


def pretrain(settings: DemoSettings, progress: Callable[[CharacterProgress], None]) -> None:
    """Pretrain the encoder into the cache, unless it is there: takes a minute, once per machine."""
    pretrained_characters(**recipe(settings).model.options, progress=progress)


def pretrain_in_background(settings: DemoSettings) -> BaseProcess:
    """Start `pretrain` in its own process while other parts run; a later call finds its result."""
    process = get_context("spawn").Process(target=_pretrain_quietly, args=(settings,), daemon=True)
    process.start()
    return process


def _pretrain_quietly(settings: DemoSettings) -> None:
    """Errors are ignored here: the later call of `pretrain` finds no result, and raises them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo gets it, too, and ends this process
    with suppress(Exception):
        pretrain(settings, lambda progress: None)


def compare_names(settings: DemoSettings, show: Callable[[Progress], None]) -> Names:
    """Train every method on every seed, and summarise. Finished runs are reused."""
    base = recipe(settings)
    problem = load_problem(base)
    setup = set_up(base, demo_methods(settings), settings.seeds, settings.out, problem)
    before = Forgetting(base, problem).measure()
    run_all(setup.runs, data=None, runner=Processes(jobs_that_fit(setup.memory_mb)), show=show)
    comparison = summarise(setup.runs)
    write_tables(comparison, settings.out)
    return Names(comparison, setup.runs, problem.trained, before)
