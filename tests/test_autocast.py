"""Autocast around a call is autocast inside the losses: its cached casts do not outlive the weights."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import Trunk, batch

import gradaccord as ga
from gradaccord.trajectory.trajectory import at_outer_weights

STEPS = 6
LR = 0.5


class Plain:
    """The plain gradient of the sum by torch alone, for what is no method."""

    def __init__(self, model):
        pass

    def backward(self, losses):
        for loss in losses.values():
            loss().backward()

    def after_step(self):
        pass


def paired(make, **options):
    """A method on pairs: of the three tasks of a step, the first two."""
    return lambda model, optimizer: make(model, **options), ("a", "b")


def alone(make, **options):
    """A method on one task a step."""
    return lambda model, optimizer: make(model, optimizer, **options), ("a",)


def combined(make, **options):
    return lambda model, optimizer: make(model, **options), ("a", "b", "c")


difference = {"mode": "difference", "step": 0.1, "max_ratio": 10.0, "weight": 0.5}

METHODS = {
    "Sum": combined(ga.Sum),
    "Mean": combined(ga.Mean),
    "PCGrad": combined(ga.PCGrad),
    "GradVac": combined(ga.GradVac, beta=0.3),
    "GradNorm": combined(ga.GradNorm),
    "PairedSum": paired(ga.PairedSum),
    "DotProd, exact": paired(ga.DotProd, weight=0.5, max_ratio=10.0),
    "DotProd, exact, symmetric": paired(ga.DotProd, weight=0.5, max_ratio=10.0, scheme="symmetric"),
    "DotProd, exact, cosine": paired(ga.DotProd, objective="cosine", max_ratio=10.0),
    "DotProd, difference": paired(ga.DotProd, **difference),
    "DotProd, centred": paired(ga.DotProd, scheme="centred", **difference),
    "DotProd, symmetric": paired(ga.DotProd, scheme="symmetric", **difference),
    "SAM": (lambda model, optimizer: ga.SAM(model, radius=0.5), ("a",)),
    "SAM, batches=2": paired(ga.SAM, radius=0.5, batches=2),
    "Reptile": alone(ga.Reptile, inner_steps=2),
    "SequentialReptile": alone(ga.SequentialReptile, inner_steps=3, outer_lr=0.3),
    "FOMAML": alone(ga.FOMAML, inner_steps=3),
    "MultiTaskReptile": alone(ga.MultiTaskReptile, tasks=2, inner_steps=2, outer_lr=0.5),
    "SMART": combined(ga.Sum),
    "SMART, teacher": combined(ga.Sum),
    "SMART, plain": combined(Plain),
    "SWEP": combined(ga.Sum),
    "RecAdam": combined(Plain),
}


def autocast(**options):
    return torch.autocast("cpu", dtype=torch.bfloat16, **options)


def always(context, call):
    with context():
        return call()


def regularised(name, model):
    """The wrapper of the losses that the name asks for."""
    if "SMART" in name:
        bregman = 0.0 if name == "SMART" else 1.0
        smart = ga.SMART(model, bregman=bregman, momentum=0.9, probe_every=2)
        if smart.teacher is not None:  # far from the model, so that a mistaken one is seen
            for weight in smart.teacher.weights.values():
                weight.mul_(-0.5)
        return smart
    if name == "SWEP":
        return ga.SWEP(model, encoder="encoder", hidden_size=6)
    return None


class Encoder(Trunk):
    """With the states [batch, length, H] that SWEP reads."""

    def __init__(self, **options):
        super().__init__(**options)
        self.encoder = nn.Sequential(nn.Linear(6, 6), nn.Tanh())

    def features(self, tokens):
        hidden = self.encoder(self.words(tokens)).mean(1)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return hidden


def walk(name, around=nullcontext, call=nullcontext, inside=nullcontext):
    """Weights after some steps, and what the model says on the way: after a backward pass, at phi."""
    make, tasks = METHODS[name]
    torch.manual_seed(0)
    model = Encoder()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    if name == "RecAdam":
        optimizer = ga.RecAdam(model.parameters(), lr=0.02, t0=3, k=0.5, gamma=10.0)
    method = make(model, optimizer)
    said = []

    def say(context):
        with torch.no_grad(), context():
            said.append(model(batch(9)[0], "a").float())

    torch.manual_seed(1)
    seen = around if around is not nullcontext else call if call is not nullcontext else inside
    wrapper = regularised(name, model)
    with around():
        for step in range(STEPS):
            losses = {}
            for i, task in enumerate(tasks):
                tokens, labels = batch(100 * step + i)
                forward, loss = partial(model, tokens, task), partial(entropy, labels)
                if wrapper is None:
                    losses[task] = partial(lambda f, g: g(f()), forward, loss)
                else:
                    losses[task] = wrapper.loss(forward, loss)
                losses[task] = partial(always, inside, losses[task])
            with call():
                method.backward(losses)
                if not isinstance(method, Plain):
                    say(seen if call is nullcontext else nullcontext)
            optimizer.step()
            optimizer.zero_grad()
            method.after_step()
            if wrapper is not None:
                wrapper.after_step()
            if hasattr(method, "inner_steps"):
                with at_outer_weights(method):
                    say(seen)
                say(seen)
        if hasattr(method, "finish"):
            method.finish()
    return torch.cat([t.detach().flatten() for t in [*model.parameters(), *said]])


def entropy(labels, scores):
    return F.cross_entropy(scores.float(), labels)


@pytest.mark.filterwarnings("ignore:The losses run under autocast, whose rounding")
@pytest.mark.parametrize("name", METHODS)
def test_autocast_around_the_call_hid_that_weights_moved(name):
    reference = walk(name, around=partial(autocast, cache_enabled=False))
    inside = walk(name, inside=autocast)
    assert torch.equal(walk(name, call=autocast), inside)
    assert torch.equal(walk(name, around=autocast), inside)
    # A weight used twice in one graph: cached, its gradients are summed in bfloat16.
    twice = name.startswith(("SMART", "SWEP"))
    assert distance(inside, reference) < (2e-3 if twice else 1e-6)
    plain = walk(name)
    assert not torch.equal(plain, inside)  # or nothing has been cast
    assert distance(inside, plain) < 0.01


def distance(first, second):
    return float((first - second).norm() / second.norm())
