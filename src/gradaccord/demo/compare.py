"""Train all methods side by side on the `cldr` names.

All methods of a seed start from the same weights, meet the same batches in the same order with the
same dropout, and take turns step by step, so that what is left between them is the method.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.functional import cross_entropy

import gradaccord
from gradaccord.data import cldr
from gradaccord.demo.results import Comparison, Outcome
from gradaccord.demo.settings import BASELINE, METHODS, Settings
from gradaccord.models.characters import CharacterClassifier

MAX_LENGTH = 24  # characters; 19 names in 20 have no more
WARM_UP = 20  # steps
PLAIN_EVERY = 4  # steps between two timings of `sum(losses).backward()`
LOOKS = 4  # glances at the accuracy during a run, for the screen alone
GLANCE = 8  # a glance takes every 8th test name
PROBE = 128  # training names a language for the cosine at the end; a step's few are mostly noise

Batch = tuple[torch.Tensor, torch.Tensor]  # tokens, labels
Progress = Callable[["Standing"], None]


@dataclass(frozen=True)
class Standing:
    """Where the comparison stands, for a screen."""

    settings: Settings
    seed: int
    step: int
    seconds_left: float
    latest: dict[str, dict[str, float]]  # method -> loss, cosine, conflicts, accuracy


def compare(settings: Settings, progress: Progress = lambda standing: None) -> Comparison:
    """Run everything; an interrupt (Ctrl-C) ends it early with what is done so far.

    Uses one thread: with matrices this small, threads that wait for one another are far slower on a
    busy machine. Leaves torch's global random state and number of threads as they were.
    """
    comparison = Comparison(settings, {method: [] for method in settings.methods})
    started = time.perf_counter()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            for seed in range(settings.seeds):
                _compare_under(seed, comparison, started, progress)
    except KeyboardInterrupt:
        comparison.interrupted = True
    finally:
        torch.set_num_threads(threads)
    comparison.seconds = time.perf_counter() - started
    return comparison


class _Run:
    """One method in training: its own weights, its own optimiser, everybody's batches."""

    def __init__(self, name: str, seed: int, problem: cldr.CLDR, settings: Settings) -> None:
        torch.manual_seed(seed)
        self.model = CharacterClassifier(len(problem.vocabulary), problem.tasks, len(problem.kinds))
        self.method = METHODS[name](self.model, seed=seed)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.lr)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min((step + 1) / WARM_UP, 1 - step / settings.steps)
        )
        self.losses: list[float] = []
        self.cosines: list[float] = []
        self.conflicts: list[float] = []
        self.seconds: list[float] = []
        self.accuracy = math.nan

    def step(self, batches: dict[str, Batch]) -> None:
        """The loop that a user of the library writes."""
        losses = {task: partial(self.loss, task, *batch) for task, batch in batches.items()}
        report = self.method.backward(losses)
        self.optimizer.step()
        self.method.after_step()
        self.optimizer.zero_grad()
        self.schedule.step()
        self.losses.append(float(report.losses.mean()))
        self.cosines.append(report.mean_cosine)
        self.conflicts.append(report.conflicts)
        self.seconds.append(report.seconds)

    def plain_seconds(self, batches: dict[str, Batch]) -> float:
        """How long the gradient takes without any method; leaves no trace."""
        started = time.perf_counter()
        losses = [self.loss(task, *batch) for task, batch in batches.items()]
        torch.autograd.backward(sum(losses, torch.zeros(())))
        seconds = time.perf_counter() - started
        self.optimizer.zero_grad()
        return seconds

    def loss(self, task: str, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self.model(tokens, task), labels)

    @torch.no_grad()
    def accuracy_on(self, tests: dict[str, Batch]) -> dict[str, float]:
        self.model.eval()
        right = dict.fromkeys(tests, 0)
        for task, (tokens, labels) in tests.items():
            for part, answers in zip(torch.split(tokens, 128), torch.split(labels, 128), strict=True):
                right[task] += int((self.model(_trimmed(part), task).argmax(1) == answers).sum())
        self.model.train()
        return {task: right[task] / len(labels) for task, (_, labels) in tests.items()}

    def cosine_on(self, names: dict[str, Batch]) -> float:
        self.model.eval()
        losses = {task: partial(self.loss, task, *batch) for task, batch in names.items()}
        report = gradaccord.Sum(self.model).backward(losses)
        self.optimizer.zero_grad()
        self.model.train()
        return report.mean_cosine

    def latest(self) -> dict[str, float]:
        recent = slice(-20, None)
        return {
            "loss": statistics.fmean(self.losses[recent]),
            "cosine": _mean(self.cosines),
            "conflicts": statistics.fmean(self.conflicts),
            "accuracy": self.accuracy,
        }

    def outcome(
        self, probe: dict[str, Batch], tests: dict[str, Batch], plain: dict[int, float]
    ) -> Outcome:
        last = max(1, len(self.losses) // 10)
        return Outcome(
            accuracy=self.accuracy_on(tests),
            train_loss=statistics.fmean(self.losses[-last:]),
            cosine=_mean(self.cosines),
            conflicts=statistics.fmean(self.conflicts),
            end_cosine=self.cosine_on(probe),
            time_ratio=statistics.median(
                own / plain[step] for step, own in enumerate(self.seconds) if step in plain
            ),
        )


def _compare_under(seed: int, comparison: Comparison, started: float, progress: Progress) -> None:
    settings = comparison.settings
    problem = cldr.load(seed=seed)
    tests = {task: _by_length(_encoded(problem, names.test)) for task, names in problem.tasks.items()}
    glances = {task: (tokens[::GLANCE], labels[::GLANCE]) for task, (tokens, labels) in tests.items()}
    train = {task: _encoded(problem, names.train) for task, names in problem.tasks.items()}
    probe = {task: (tokens[:PROBE], labels[:PROBE]) for task, (tokens, labels) in train.items()}
    runs = {method: _Run(method, seed, problem, settings) for method in settings.methods}
    plain: dict[int, float] = {}
    done = 0
    try:
        for step, batches in enumerate(_batches(train, seed, settings)):
            for name in _turns(settings.methods, step):
                torch.manual_seed(seed * 1_000_003 + step)  # the same dropout for all
                if name is not None:
                    runs[name].step(batches)
                elif step % PLAIN_EVERY == 0:
                    plain[step] = runs[BASELINE].plain_seconds(batches)
            done = step + 1
            if done % max(1, settings.steps // LOOKS) == 0:
                for run in runs.values():
                    run.accuracy = statistics.fmean(run.accuracy_on(glances).values())
            steps_before = seed * settings.steps
            pace = (time.perf_counter() - started) / (steps_before + done)
            left = pace * (settings.seeds * settings.steps - steps_before - done)
            latest = {method: run.latest() for method, run in runs.items()}
            progress(Standing(settings, seed, done, left, latest))
    except KeyboardInterrupt:
        if comparison.seeds or not done:
            raise  # what is done are whole seeds
        comparison.interrupted = True
    outcomes = {method: run.outcome(probe, tests, plain) for method, run in runs.items()}
    for method, outcome in outcomes.items():  # all or none, should a second interrupt come
        comparison.outcomes[method].append(outcome)
    comparison.steps = done
    if comparison.interrupted:
        raise KeyboardInterrupt


def _turns(methods: Sequence[str], step: int) -> list[str | None]:
    """Who goes first rotates, the timing without a method (None) included."""
    turns = [None, *methods]
    first = step // PLAIN_EVERY % len(turns)
    return turns[first:] + turns[:first]


def _encoded(problem: cldr.CLDR, examples: cldr.Examples) -> Batch:
    return problem.vocabulary.encode(examples.texts, MAX_LENGTH), examples.labels


def _by_length(batch: Batch) -> Batch:
    """Names of one length side by side, so that parts of it need little padding."""
    tokens, labels = batch
    order = (tokens != 0).sum(1).argsort(stable=True)
    return tokens[order], labels[order]


def _trimmed(tokens: torch.Tensor) -> torch.Tensor:
    return tokens[:, : int((tokens != 0).sum(1).max())]


def _batches(train: dict[str, Batch], seed: int, settings: Settings) -> Iterator[dict[str, Batch]]:
    """At each step several languages, drawn by p ~ N^(1/5) without replacement (Lee et al. 2022)."""
    generator = torch.Generator().manual_seed(seed)
    languages = list(train)
    weights = torch.tensor([len(labels) ** 0.2 for _, labels in train.values()])
    for _ in range(settings.steps):
        batches = {}
        for i in torch.multinomial(weights, settings.languages_per_step, generator=generator).tolist():
            tokens, labels = train[languages[i]]
            chosen = torch.randint(len(labels), (settings.batch,), generator=generator)
            batches[languages[i]] = (_trimmed(tokens[chosen]), labels[chosen])
        yield batches


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return statistics.fmean(defined) if defined else math.nan
