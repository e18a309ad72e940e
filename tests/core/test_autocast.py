"""Autocast around a call is autocast inside the losses: its cached casts do not outlive the weights."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from every_method import METHODS, several
from torch import nn
from torch.nn import functional as F
from toy import Trunk, batch

import gradaccord as ga

STEPS = 6
LR = 0.5


class Plain(ga.Method):
    """The plain gradient of the sum by torch alone, for what is no method."""

    def __init__(self, model):
        pass

    def backward(self, losses):
        for loss in losses.values():
            loss().backward()


WALKS = METHODS | {
    "SMART": several(ga.Sum),
    "SMART, teacher": several(ga.Sum),
    "SMART, plain": several(Plain),
    "SWEP": several(ga.Sum),
    "RecAdam": several(Plain),
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
    make, tasks = WALKS[name]
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
                with method.outer_weights():
                    say(seen)
                say(seen)
        method.finish()
    return torch.cat([t.detach().flatten() for t in [*model.parameters(), *said]])


def entropy(labels, scores):
    return F.cross_entropy(scores.float(), labels)


@pytest.mark.filterwarnings("ignore:The losses run under autocast, whose rounding")
@pytest.mark.parametrize("name", WALKS)
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
