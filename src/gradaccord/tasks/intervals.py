"""How sure a score is: bootstrap intervals over the examples, whatever the kind of task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.tasks.task import Task

LEVEL = 0.95
DRAWS = 1000  # resamples
LEAST, MOST = 100, 500  # of metrics that are scored anew on each, and
SCORED = 500_000  # how many examples all of these may have together


@dataclass(frozen=True)
class Interval:
    """A score in percent, and the percentile interval of so many resamples around it."""

    value: float
    low: float
    high: float
    resamples: int


def intervals(
    task: Task[Any],
    examples: Sequence[Any],
    predictions: Sequence[Any],
    *,
    watch: Watch = NOBODY,
) -> dict[str, Interval]:
    """Every metric of a task with its 95 % interval: examples are drawn with replacement.

    A metric that is a mean over single examples, or follows from a table of confusions, gets 1,000
    draws. Others are scored anew on each draw: 500 draws, or fewer if there are many examples. Answers
    to one question (`group_key`) are drawn together.
    """
    scores = task.score(examples, predictions)
    known = [(e, p) for e, p in zip(examples, predictions, strict=True) if task.gold(e) is not None]
    units = _units([example for example, _ in known])
    draw = np.random.default_rng(0)
    found: dict[str, Interval] = {}
    for metric, drawn in _of_counts(task, known, scores, draw).items():
        found[metric] = _interval(scores[metric], drawn)
    for metric, own in ({} if found else _means(task, known, scores)).items():
        means = [own[draw.integers(len(own), size=len(own))].mean() for _ in range(DRAWS)]
        found[metric] = _interval(scores[metric], means)
    rest = [metric for metric in scores if metric not in found]
    if rest:
        times = min(max(SCORED // len(known), LEAST), MOST)
        again = []
        for _ in watch.each("resampling", range(times), times, every=1):
            chosen = [units[i] for i in draw.integers(len(units), size=len(units))]
            again.append(task.score(*_resampled(known, chosen)))
        found |= {m: _interval(scores[m], [one[m] for one in again]) for m in rest}
    return {metric: found[metric] for metric in scores}


def _interval(value: float, drawn: Sequence[float]) -> Interval:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high), len(drawn))


def _of_counts(
    task: Task[Any],
    known: Sequence[tuple[Any, Any]],
    scores: dict[str, float],
    draw: np.random.Generator,
) -> dict[str, Sequence[float]]:
    """Metrics that follow from a table of confusions, of tables drawn again."""
    places = {name: place for place, name in enumerate(task.class_names)}
    if not places or not task.scores_of_counts(torch.ones(1, 1, 1)):
        return {}
    pairs = Counter(pair for e, p in known for pair in task.class_pairs(task.gold(e), p))
    size, total = len(places), pairs.total()
    cells = [places[truth] * size + places[said] for truth, said in pairs]
    drawn = draw.multinomial(total, [count / total for count in pairs.values()], size=DRAWS)
    tables = torch.zeros(DRAWS + 1, size * size, dtype=torch.float64, device="cpu")
    tables[0, cells] = torch.tensor([*pairs.values()], dtype=torch.float64, device="cpu")
    tables[1:, cells] = torch.as_tensor(drawn, dtype=torch.float64, device="cpu")
    found = task.scores_of_counts(tables.view(-1, size, size))
    same = {m: own for m, own in found.items() if m in scores and abs(own[0] - scores[m]) < 1e-6}
    return {metric: own[1:].tolist() for metric, own in same.items()}


def _means(
    task: Task[Any], known: Sequence[tuple[Any, Any]], scores: dict[str, float]
) -> dict[str, NDArray[np.float64]]:
    """What each example scores, of the metrics that are the mean of it."""
    if task.graded:
        single = [task.score([example], [prediction]) for example, prediction in known]
        tried = {metric: [one[metric] for one in single] for metric in scores}
    else:
        right = [100.0 * task.is_right(e, task.gold(e), p) for e, p in known]
        tried = {"accuracy": right} if "accuracy" in scores else {}
    found = {metric: np.array(own) for metric, own in tried.items()}
    return {m: own for m, own in found.items() if abs(own.mean() - scores[m]) < 1e-6}


def _units(examples: Sequence[Any]) -> list[list[int]]:
    """The places of the examples that belong together."""
    found: dict[Any, list[int]] = {}
    for place, example in enumerate(examples):
        key = example.group_key
        found.setdefault(place if key is None else key, []).append(place)
    return list(found.values())


def _resampled(
    known: Sequence[tuple[Any, Any]], chosen: Sequence[Sequence[int]]
) -> tuple[list[Any], list[Any]]:
    """The examples of the drawn units, and their predictions; a group drawn twice is two groups."""
    drawn = []
    for number, unit in enumerate(chosen):
        for place in unit:
            example, prediction = known[place]
            if example.group_key is not None:
                example = example.in_group(str(number))
            drawn.append((example, prediction))
    return [example for example, _ in drawn], [prediction for _, prediction in drawn]
