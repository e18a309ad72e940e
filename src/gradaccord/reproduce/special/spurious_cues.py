"""Spurious cues: ten domains, one weak cue in all of them, and a different strong cue in each.

A label y = ±1 moves feature 0 by `common` in every domain, feature 1 + d by `own` in domain d alone;
all else is noise of variance 1. In a new domain only the common cue is left. Does aligning gradients
between domains protect against the strong cues? Methods differ in how fast they learn, so that each
is measured at equal training loss: its accuracy in the new domain, interpolated at fixed losses.
Each method gets the learning rate that is best on held-out examples of the training domains, which
are not reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gradaccord.core.replay import seeded
from gradaccord.core.threads import one_thread
from gradaccord.methods.registry import BASELINE, find_method
from gradaccord.reproduce.records import Point, thinned
from gradaccord.reproduce.special.outcome import SpecialOutcome

DEFAULTS: dict[str, Any] = {
    "method": BASELINE, "model": "linear", "hidden": 32, "domains": 10, "noise": 20, "common": 0.5,
    "own": 2.0, "examples": 200, "test_examples": 5000, "batch_size": 20, "lr": [0.1, 0.3, 1.0],
    "steps": 200, "losses": [0.6, 0.55, 0.5],
}  # fmt: skip

Batch = tuple[torch.Tensor, torch.Tensor]  # features, labels 0 or 1


def spurious_cues(
    settings: dict[str, Any], seed: int, *, data: Path | None, folder: Path
) -> SpecialOutcome:
    """settings: as `DEFAULTS`. Scores: accuracy in the new domain at each training loss, NaN where the
    training loss did not fall so far.

    steps: batches per domain; a method that takes one or two batches per step takes more steps.
    lr: rates to choose from: one that reaches all `losses`, and of these the lowest held-out loss.
    """
    unknown = set(settings) - set(DEFAULTS)
    if unknown:
        raise ValueError(
            f"`{min(unknown)}` is not a setting of spurious_cues: use {', '.join(DEFAULTS)}."
        )
    chosen = DEFAULTS | settings
    with one_thread():
        tried = {rate: _trained(chosen, rate, seed) for rate in chosen["lr"]}
    target = min(chosen["losses"])

    def rank(rate: float) -> tuple[bool, float]:
        return _lowest(tried[rate], "train_loss") > target, _lowest(tried[rate], "held_out_loss")

    best = min(tried, key=rank)
    points = tried[best]
    losses = [point.values["train_loss"] for point in points]
    accuracies = [point.values["accuracy"] for point in points]
    found = {
        f"loss {at:g}": {"accuracy": accuracy_at(at, losses, accuracies)} for at in chosen["losses"]
    }
    return SpecialOutcome(
        test=found,
        train_loss=losses[-1],
        probes={
            "lr": best,
            "lowest_train_loss": min(losses),
            "held_out_loss": _lowest(points, "held_out_loss"),
        },
        curve=thinned(points),
        chance={task: {"chance": 50.0} for task in found},
        steps=points[-1].step,
        gradients=sum(own[-1].gradients for own in tried.values()),
    )


def _trained(chosen: dict[str, Any], rate: float, seed: int) -> list[Point]:
    """Train at one rate; the same data, weights and batches at every rate."""
    named = chosen["method"]
    options = {"name": named} if isinstance(named, str) else dict(named)
    entry = find_method(options.pop("name"))
    points: list[Point] = []
    with seeded(seed):
        domains = range(chosen["domains"])
        train = [_domain(chosen, d, chosen["examples"]) for d in domains]
        held_out = [_domain(chosen, d, chosen["examples"]) for d in domains]
        new = _domain(chosen, None, chosen["test_examples"])
        model = _model(chosen)
        optimizer = torch.optim.SGD(model.parameters(), rate)
        names = [f"domain {d}" for d in domains]
        method = entry.build(model, optimizer, tasks=names, seed=seed, **options)
        feed, block = entry.feed_with(options), entry.block_with(options)
        at_once = {"all": len(train), "pair": 2}.get(feed, 1)
        # The same length of step for all: a mean over the batches of ten domains.
        scale = 1 / len(train)
        steps = batches = 0

        def measure() -> None:
            values = {
                "train_loss": _mean_loss(model, train),
                "held_out_loss": _mean_loss(model, held_out),
                "accuracy": _accuracy(model, new),
            }
            gradients = batches * entry.cost_with(options)
            points.append(Point(step=steps, gradients=gradients, seconds=0, values=values))

        measure()
        while batches < chosen["steps"] * len(train):
            drawn = torch.randperm(len(train))[:at_once].tolist()
            if feed == "blocks":
                drawn = [steps // block % len(train)]
            method.backward(
                {
                    names[d]: partial(_loss, model, _drawn(train[d], chosen["batch_size"]), scale)
                    for d in drawn
                }
            )
            optimizer.step()
            method.after_step()
            optimizer.zero_grad()
            steps, batches = steps + 1, batches + at_once
            if batches // len(train) > (batches - at_once) // len(train):
                with method.outer_weights():
                    measure()
    return points


def _lowest(points: Sequence[Point], name: str) -> float:
    return min(point.values[name] for point in points)


def accuracy_at(loss: float, losses: Sequence[float], accuracies: Sequence[float]) -> float:
    """The accuracy when the training loss first falls to `loss`, between two points by a line; NaN if
    it never does."""
    before: tuple[float, float] | None = None
    for now in zip(losses, accuracies, strict=True):
        if now[0] <= loss:
            if before is None:
                return now[1]
            share = (before[0] - loss) / (before[0] - now[0])
            return before[1] + share * (now[1] - before[1])
        before = now
    return math.nan


def _domain(chosen: dict[str, Any], own: int | None, examples: int) -> Batch:
    labels = (torch.arange(examples) % 2).float()
    features = torch.randn(examples, 1 + chosen["domains"] + chosen["noise"])
    signs = 2 * labels - 1
    features[:, 0] += chosen["common"] * signs
    if own is not None:
        features[:, 1 + own] += chosen["own"] * signs
    return features, labels


def _model(chosen: dict[str, Any]) -> nn.Module:
    features = 1 + chosen["domains"] + chosen["noise"]
    if chosen["model"] == "linear":
        return nn.Linear(features, 1)
    if chosen["model"] != "mlp":
        raise ValueError(f"`model` is {chosen['model']!r}: use 'linear' or 'mlp'.")
    return nn.Sequential(
        nn.Linear(features, chosen["hidden"]), nn.ReLU(), nn.Linear(chosen["hidden"], 1)
    )


def _drawn(domain: Batch, size: int) -> Batch:
    rows = torch.randint(len(domain[1]), (size,))
    return domain[0][rows], domain[1][rows]


def _loss(model: Callable[..., torch.Tensor], batch: Batch, scale: float) -> torch.Tensor:
    return scale * binary_cross_entropy_with_logits(model(batch[0]).squeeze(-1), batch[1])


@torch.no_grad()
def _mean_loss(model: nn.Module, domains: Sequence[Batch]) -> float:
    return sum(float(_loss(model, domain, 1 / len(domains))) for domain in domains)


@torch.no_grad()
def _accuracy(model: nn.Module, domain: Batch) -> float:
    right = (model(domain[0]).squeeze(-1) > 0) == (domain[1] > 0)
    return 100 * float(right.float().mean())
