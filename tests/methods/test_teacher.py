"""SMART's teacher: a moving average, run once, in the model's type."""

from __future__ import annotations

import copy

import pytest
import torch
from smart_problems import wrapped
from torch.nn import functional as F
from toy import batch, trunk

from gradaccord.methods.regularize.divergence import symmetric_kl
from gradaccord.methods.regularize.smart import SMART
from gradaccord.methods.regularize.teacher import Teacher, paper_momentum

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_teacher_is_the_moving_average_and_its_term_the_divergence_to_it():
    model = trunk()
    smart = SMART(model, weight=0.0, bregman=2.0, momentum=lambda step: 0.5 if step < 1 else 0.9)
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step, beta in enumerate((0.5, 0.9, 0.9)):
        tokens, labels = batch(step)
        out = model(tokens, "a")
        target = average(tokens, "a").detach()
        expected = F.cross_entropy(out, labels) + 2.0 * symmetric_kl(out, target).mean()
        found = wrapped(smart, model, seed=step)()
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        smart.after_step()
        with torch.no_grad():
            for mean, p in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(p, 1 - beta)
    assert paper_momentum(100)(9) == 0.99
    assert paper_momentum(100)(10) == 0.999


def test_the_teacher_runs_once_in_eval_mode_and_leaves_weights_and_modes():
    model = trunk(dropout=0.5)
    smart = SMART(model, weight=0.0, bregman=1.0)
    modes = []
    handle = model.dropout.register_forward_hook(lambda m, *_: modes.append(m.training))
    before = {n: (p.data_ptr(), p.detach().clone()) for n, p in model.named_parameters()}
    wrapped(smart, model)().backward()
    handle.remove()
    assert modes == [False, False, True, True]
    assert model.dropout.training
    for name, p in model.named_parameters():
        assert p.data_ptr() == before[name][0]
        assert torch.equal(p.detach(), before[name][1])


def test_the_teacher_follows_the_model_in_dtype_and_learns_in_bfloat16():
    model = trunk(dtype=torch.bfloat16)
    teacher = Teacher(model, 0.999)
    with torch.no_grad():
        model.words.weight.add_(1.0)
    before = teacher.weights["words.weight"].clone()
    teacher.update(0)
    torch.testing.assert_close(teacher.weights["words.weight"], before + 0.001, rtol=0, atol=2e-4)
    model.double()
    with teacher.in_place():
        assert model.words.weight.dtype == torch.float64
        assert not torch.equal(model.words.weight, model.words.weight.round())
    on_meta = trunk().to("meta")  # the only other device at hand: the teacher goes there, too
    moved = Teacher(trunk())
    moved.parameters = dict(on_meta.named_parameters())
    moved.update(0)
    assert all(w.device.type == "meta" for w in moved.weights.values())
