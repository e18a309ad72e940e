"""Every method, built and trained a few steps."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from every_method import unlisted
from toy import batch, loss_of, losses_of

import gradaccord
from gradaccord.methods.registry import takes_optimizer

METHODS = {
    "Sum": gradaccord.Sum,
    "Mean": gradaccord.Mean,
    "PCGrad": partial(gradaccord.PCGrad, granularity="layer"),
    "GradVac": partial(gradaccord.GradVac, beta=0.3),
    "GradNorm": partial(gradaccord.GradNorm, lr=0.2),
    "UncertaintyWeighting": partial(gradaccord.UncertaintyWeighting, lr=0.2),
    "DWA": partial(gradaccord.DWA, window=2),
    "RLW": gradaccord.RLW,
    "FAMO": gradaccord.FAMO,
    "LossScale": gradaccord.LossScale,
    "SmoothTchebycheff": gradaccord.SmoothTchebycheff,
    "PairedSum": gradaccord.PairedSum,
    "DotProd": gradaccord.DotProd,
    "DotProd, differences": partial(gradaccord.DotProd, mode="difference"),
    "SAM": gradaccord.SAM,
    "SAM on pairs": partial(gradaccord.SAM, batches=2),
    "Reptile": partial(gradaccord.Reptile, inner_steps=3),
    "SequentialReptile": partial(gradaccord.SequentialReptile, inner_steps=3, outer_lr=0.5),
    "Averaged": partial(gradaccord.Averaged, decay=0.5),
    "FOMAML": partial(gradaccord.FOMAML, inner_steps=3),
    "MultiTaskReptile": partial(gradaccord.MultiTaskReptile, tasks=2, inner_steps=3),
    "UPGrad": lambda model, optimizer=None: gradaccord.TorchJD(model, "UPGrad"),
    "Nash-MTL": lambda model, optimizer=None: gradaccord.TorchJD(model, "NashMTL", n_tasks=2),
    "PCD": lambda model, optimizer=None: gradaccord.TorchJD(model, "PCD"),
    "Random": lambda model, optimizer=None: gradaccord.TorchJD(model, "Random"),
}
TRAJECTORIES = ("Reptile", "SequentialReptile", "FOMAML", "MultiTaskReptile")
ONE_TASK = [*TRAJECTORIES, "SAM"]
for new, entry in unlisted(METHODS).items():  # a new method, at its defaults
    METHODS[new] = partial(entry.build, tasks="ab")
    if entry.feed_with({}) in ("one", "blocks"):
        ONE_TASK.append(new)


def made(name, model):
    """The method, and an optimiser with moments."""
    if name in ("UPGrad", "Nash-MTL", "PCD", "Random"):
        pytest.importorskip("torchjd", reason="TorchJD is not installed")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    own = {"optimizer": optimizer} if takes_optimizer(METHODS[name]) else {}
    return METHODS[name](model, **own), optimizer


def given(name, model, step):
    """What a step takes: two tasks, or one."""
    task = "a" if name == "MultiTaskReptile" else "ab"[step % 2]
    return losses_of(model, task if name in ONE_TASK else "ab", seed=step)


def length_at_zero(model):
    """A finite loss whose gradient is NaN, by a common mistake: the square root of a sum of squares."""
    weight = model.layers[0].weight
    return loss_of(model, "a", *batch(1)) + (weight - weight.detach()).square().sum().sqrt()
