"""The advisor: measures conflict, lengths and costs on your own tasks, and says what to compare."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import psutil
import torch

from gradaccord.compare.budget import budget_of
from gradaccord.compare.method_cost import MethodCost, loop_of, measure_cost
from gradaccord.compare.recommendation import Recommendation, recommend
from gradaccord.compare.specs import Spec, with_controls
from gradaccord.core.watch import NOBODY, Watch
from gradaccord.methods.registry import BASELINE, METHODS, SINGLE_TASK
from gradaccord.probe.conflict import Conflict, GradientSample
from gradaccord.runs.exceptions import TrainingError
from gradaccord.runs.log import Log
from gradaccord.train.config import Config
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.problem import Problem
from gradaccord.train.run import make_accelerator, seed_everything
from gradaccord.train.step_batches import StepBatch

SECONDS = 60.0  # of measuring
# Plain training before gradients are compared: with untrained heads they say little, and where the sum
# of all losses is at its lowest they cancel, whatever the tasks. So a small share of the run.
STEPS, SHARE = 50, 0.05  # both at most
TRAINING, SAMPLING = 0.25, 0.65  # of the time, at which training ends and at which sampling does
LEAST, MOST = 4, 16  # batches of each task
TIMED = 0.5  # processor seconds of each method, at least: 2 to 20 batches of each task
SEEDS = 5  # of the comparison: with fewer a t-test sees large differences only
PLAIN = Spec(BASELINE)


@dataclass(frozen=True)
class Advice:
    """What was measured, and what it says."""

    steps: int  # of plain training before gradients were measured
    conflict: Conflict
    recommended: Recommendation
    costs: Mapping[str, MethodCost]  # by method; plain training first, then those that are advised
    refused: Mapping[str, str] = field(
        default_factory=dict
    )  # advised method -> why it cannot be used here
    untimed: Mapping[str, float] = field(default_factory=dict)  # method -> gradients per batch
    runs: int = 0  # of the comparison, controls included
    run_seconds: float = 0.0  # processor seconds of training that each takes


def advise(
    config: Config, problem: Problem, *, seconds: float = SECONDS, watch: Watch = NOBODY
) -> Advice:
    """Train a little, compare gradients of many batches, time the methods; `problem` stays as it is.

    seconds: about how long all of it takes. The first methods are always timed: plain training, the
    recommended ones and their controls.
    """
    clock = _Clock(seconds, watch)
    accelerator = make_accelerator(config)
    seed_everything(config.train.seed)
    with loop_of(PLAIN, config, problem, accelerator) as loop:
        log, most = Log(None), _training_steps(config, problem)
        while loop.step < most and (loop.step < 2 or clock.share < TRAINING):
            clock.at("training a little")
            loop.take_step(log)
        steps, batch_seconds = loop.step, loop.training_seconds / loop.phase.seen
        found = _sampled(loop, clock)
    recommended = recommend(found)
    rounds = math.ceil(TIMED / (batch_seconds * len(problem.trained)))
    timed = partial(measure_cost, base=config, problem=problem, accelerator=accelerator)
    chosen = with_controls(map(Spec.parse, recommended.methods), PLAIN)
    costs: dict[str, MethodCost] = {}
    refused: dict[str, str] = {}
    untimed: dict[str, float] = {}
    for spec in dict.fromkeys([*chosen, *_others(problem)]):
        if spec not in chosen and clock.share >= 1:
            untimed[spec.method] = METHODS[spec.method].cost_with({})
            continue
        clock.at(f"timing {spec.short}")
        try:
            costs[str(spec)] = timed(spec, rounds=min(max(rounds, 2), 20))
        except (ValueError, TypeError, AttributeError, ModuleNotFoundError, TrainingError) as error:
            if spec in chosen:
                refused[str(spec)] = str(error)
    advised = [method for method in recommended.methods if method not in refused]
    runs = with_controls(map(Spec.parse, advised or [SINGLE_TASK]), PLAIN)
    plain = costs[str(PLAIN)]
    return Advice(
        steps,
        found,
        Recommendation(tuple(advised), recommended.reasons),
        costs,
        refused,
        untimed,
        len(runs) * SEEDS,
        _run_seconds(config, problem, plain),
    )


def compare_command(advice: Advice, config: Config, file: str, rest: tuple[str, ...] = ()) -> str:
    """The command line of the comparison. rest: further arguments that `advise` was given."""
    if config.train.seconds is not None:
        rest = (*rest, "--budget", "seconds")
    methods = advice.recommended.methods or (SINGLE_TASK,)
    separator = "; " if any(":" in method for method in methods) else ","
    words = ["gradaccord", "compare", file, *rest]
    return shlex.join([*words, "--methods", separator.join(methods), "--seeds", str(SEEDS)])


def _training_steps(config: Config, problem: Problem) -> int:
    if config.train.seconds is not None:
        return STEPS
    steps = budget_of(config, problem).amount / len(problem.trained)
    return min(STEPS, math.ceil(SHARE * steps))


class _Clock:
    """Tells the watch how much of the time has passed."""

    def __init__(self, seconds: float, watch: Watch) -> None:
        self.seconds, self.watch = seconds, watch
        self.began = time.perf_counter()

    @property
    def share(self) -> float:
        """1 at the end of the time."""
        return (time.perf_counter() - self.began) / self.seconds

    def at(self, what: str) -> None:
        """Show what is being done."""
        done = time.perf_counter() - self.began
        self.watch.at(what, min(done, self.seconds), self.seconds)


def _sampled(loop: TrainingLoop, clock: _Clock) -> Conflict:
    """Gradients of as many batches as time and memory allow."""
    sample = GradientSample(loop.trainable, loop.accelerator)
    free = psutil.virtual_memory().available / 2**20
    for batches in _rounds(loop):
        clock.at(f"comparing gradients, batch {sample.batches + 1}")
        sample.add({one.name: loop.calls(one) for one in batches})
        each = sample.megabytes / sample.batches
        if LEAST * each > free / 2:
            raise ValueError(
                f"The gradients of {LEAST} batches of each task take {LEAST * each:,.0f} MB, more than "
                f"half of the {free:,.0f} MB of free memory: `model.freeze` parts, or use `model.lora`."
            )
        full = (sample.batches + 1) * each > free / 2
        if sample.batches >= LEAST and (full or clock.share >= SAMPLING):
            break
    return sample.compare()


def _rounds(loop: TrainingLoop) -> Iterator[list[StepBatch]]:
    """A batch of each task, again and again, with no example twice; smaller ones of small tasks."""
    problem = loop.problem
    draws = {}
    for i, task in enumerate(problem.trained):
        count = len(problem.prepared[task].encoded["train"])
        if count < LEAST:
            raise ValueError(
                f"Task {task!r} has {count} training examples, and its gradient is compared on {LEAST} "
                "batches: give it more, or leave it out."
            )
        size = min(problem.batch_sizes.get(task, loop.config.train.batch_size), count // LEAST)
        generator = torch.Generator().manual_seed(loop.config.train.seed + 7919 * i)
        order = torch.randperm(count, generator=generator, device="cpu").tolist()
        draws[task] = [tuple(order[k : k + size]) for k in range(0, count - size + 1, size)]
    for number in range(min(MOST, *(len(own) for own in draws.values()))):
        yield [StepBatch(task, task, own[number]) for task, own in draws.items()]


def _others(problem: Problem) -> Iterator[Spec]:
    """All other methods; for one task those that do not combine several."""
    for name, entry in METHODS.items():
        if len(problem.trained) > 1 or not entry.load().combines:
            yield Spec(name)


def _run_seconds(config: Config, problem: Problem, plain: MethodCost) -> float:
    """Processor seconds of training of a run of the comparison."""
    if config.train.seconds is not None:
        return config.train.seconds
    return budget_of(config, problem).amount * plain.batch_seconds
