"""Every public method in a setting that shows what it does, for tests of all of them."""

from __future__ import annotations

from functools import partial

import gradaccord as ga
from gradaccord.methods import registry


def several(make, **options):
    """A method on three tasks a step."""
    return lambda model, optimizer: make(model, **options), ("a", "b", "c")


def paired(make, **options):
    """A method on pairs of batches."""
    return lambda model, optimizer: make(model, **options), ("a", "b")


def alone(make, **options):
    """A method on one task a step."""
    return lambda model, optimizer: make(model, **options), ("a",)


def walking(make, **options):
    """A trajectory, on one task a step."""
    return lambda model, optimizer: make(model, optimizer, **options), ("a",)


def unlisted(listed):
    """Entries of the registry that a list of classes leaves out; TorchJD's have lists of their own."""
    classes = {name.partition(",")[0] for name in listed} | {"TorchJD", "TorchJDLoss"}
    return {e.class_name: e for e in registry.METHODS.values() if e.class_name not in classes}


DIFFERENCE = {"mode": "difference", "step": 0.1, "max_ratio": 10.0, "weight": 0.5}

# By name: how it is made of a model and its optimiser, and the tasks of a step.
METHODS = {
    "Sum": several(ga.Sum),
    "Mean": several(ga.Mean),
    "PCGrad": several(ga.PCGrad),
    "GradVac": several(ga.GradVac, beta=0.3),
    "GradNorm": several(ga.GradNorm),
    "ConFIG": several(ga.ConFIG),
    "PCGrad, normalised": several(ga.PCGrad, normalize=True),
    "UncertaintyWeighting": several(ga.UncertaintyWeighting, lr=0.3),
    "DWA": several(ga.DWA, window=2),
    "RLW": several(ga.RLW),
    "FAMO": several(ga.FAMO, lr=0.3),
    "LossScale": several(ga.LossScale),
    "SmoothTchebycheff": several(ga.SmoothTchebycheff),
    "PairedSum": paired(ga.PairedSum),
    "DotProd, exact": paired(ga.DotProd, weight=0.5, max_ratio=10.0),
    "DotProd, exact, symmetric": paired(ga.DotProd, weight=0.5, max_ratio=10.0, scheme="symmetric"),
    "DotProd, exact, cosine": paired(ga.DotProd, objective="cosine", max_ratio=10.0),
    "DotProd, difference": paired(ga.DotProd, **DIFFERENCE),
    "DotProd, centred": paired(ga.DotProd, scheme="centred", **DIFFERENCE),
    "DotProd, symmetric": paired(ga.DotProd, scheme="symmetric", **DIFFERENCE),
    "DotProd, noise": paired(ga.DotProd, weight=0.5, control="noise"),
    "SAM": alone(ga.SAM, radius=0.5),
    "SAM, batches=2": paired(ga.SAM, radius=0.5, batches=2),
    "Reptile": walking(ga.Reptile, inner_steps=2),
    "SequentialReptile": walking(ga.SequentialReptile, inner_steps=3, outer_lr=0.3),
    "Averaged": several(ga.Averaged, decay=0.5),
    "FOMAML": walking(ga.FOMAML, inner_steps=3),
    "MultiTaskReptile": walking(ga.MultiTaskReptile, tasks=2, inner_steps=2, outer_lr=0.5),
}
TASKS = {"all": ("a", "b", "c"), "pair": ("a", "b"), "one": ("a",), "blocks": ("a",)}
for name, entry in unlisted(METHODS).items():  # a new method, at its defaults
    tasks = TASKS[entry.feed_with({})]
    METHODS[name] = partial(entry.build, tasks=tasks), tasks
