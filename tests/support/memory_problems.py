"""What every way to keep gradients is tried on: methods, and losses in each form."""

from __future__ import annotations

from functools import partial

from torch.nn import functional as F
from toy import batch, losses_of

import gradaccord

MAKERS = {
    "Sum": gradaccord.Sum,
    "Mean": gradaccord.Mean,
    "PCGrad": gradaccord.PCGrad,
    "GradVac": partial(gradaccord.GradVac, beta=0.3),
    "GradVac by layer": partial(gradaccord.GradVac, beta=0.3, granularity="layer"),
    "PCGrad by tensor": partial(gradaccord.PCGrad, granularity="tensor"),
    "PCGrad, normalised": partial(gradaccord.PCGrad, normalize=True),
    "PCGrad, shared by name": partial(gradaccord.PCGrad, shared=["layers.0"]),
    "ConFIG": gradaccord.ConFIG,
    "GradNorm": partial(gradaccord.GradNorm, lr=0.3),
}


def shared_batch(model, shift=1):
    tokens, labels = batch(5)

    def call():
        hidden = model.features(tokens)
        return {
            task: F.cross_entropy(head(hidden), (labels + shift * i) % 3)
            for i, (task, head) in enumerate(model.heads.items())
        }

    return call


def micro_batches(model):
    return {
        task: [lambda call=call, n=n: (call(), n) for call, n in zip(calls, (2, 5), strict=True)]
        for task, calls in zip(
            "abc",
            zip(losses_of(model).values(), losses_of(model, seed=1).values(), strict=True),
            strict=True,
        )
    }


GIVEN = {
    "own batches": losses_of,
    "micro-batches": micro_batches,
    "one shared batch": shared_batch,
    "shared micro-batches": lambda model: [shared_batch(model), shared_batch(model, 2)],
}
