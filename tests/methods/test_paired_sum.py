"""Pairs of batches: windows, a batch that waits, checkpoints and changes in between."""

from __future__ import annotations

import io
import math
from functools import partial

import pytest
import torch
from pair_problems import (
    Bowls,
    Words,
    delivered,
    entropy,
    error,
    examples,
    same,
)

from gradaccord import SAM, DotProd, PairedSum


@pytest.mark.parametrize(
    "make", [PairedSum, DotProd, partial(SAM, batches=2)], ids=["pair", "dot", "sam"]
)
def test_two_calls_equal_one_call_with_two_entries(make):
    one, two = Bowls(), Bowls()
    make(one).backward(one.pair())
    method = make(two)
    first = method.backward({"one": partial(two.loss, 0)})
    assert two.x.grad is None  # the optimiser will do nothing
    assert first.extras["waiting"] == 1
    second = method.backward({"one": partial(two.loss, 1)})
    torch.testing.assert_close(two.x.grad, one.x.grad, rtol=1e-14, atol=1e-14)
    assert second.tasks == ("one#1", "one#2")
    assert second.extras["waiting"] == 0


@pytest.mark.parametrize("every", [2, 3, 5, 8, 10])
def test_every_k_batches_the_last_two_form_a_pair(every):
    bowls = Bowls()
    calls = [0, 0]

    def counted(i):
        calls[i] += 1
        return bowls.loss(i)

    method = DotProd(bowls, every=every, mode="difference", max_ratio=math.inf)
    terms = 0
    for batch in range(2 * every):
        report = method.backward({"x": partial(counted, batch % 2)})
        position = batch % every
        if position < every - 2:
            torch.testing.assert_close(bowls.x.grad, bowls.gradient(batch % 2))
        elif position == every - 2:
            assert bowls.x.grad is None
        else:
            terms += "ratio" in report.extras
    assert terms == 2
    assert sum(calls) == 2 * every + 2  # one extra gradient in every window


def test_an_odd_batch_at_the_end_of_an_epoch_is_trained_plainly():
    bowls = Bowls()
    method = DotProd(bowls)
    method.backward({"x": partial(bowls.loss, 0)})
    assert method.finish()
    torch.testing.assert_close(bowls.x.grad, bowls.gradient(0))
    assert not method.finish()
    method.backward({"x": partial(bowls.loss, 0)})  # a new window starts
    assert bowls.x.grad is None


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "make",
    [
        partial(DotProd, every=3, mode="difference"),
        partial(DotProd, every=3, control="noise"),
        PairedSum,
        partial(SAM, batches=2),
    ],
    ids=["differences", "noise", "pair", "sam"],
)
def test_a_checkpoint_between_two_batches_of_a_pair_resumes_bit_equal(make, stop):
    def run(upto, bowls, method):
        optimizer = torch.optim.SGD(bowls.parameters(), lr=0.01)
        for batch in upto:
            method.backward({"x": partial(bowls.loss, batch % 2)})
            optimizer.step()
            optimizer.zero_grad()

    whole = Bowls()
    run(range(7), whole, make(whole))
    first, second = Bowls(), Bowls(seed=9)
    method = make(first)
    run(range(stop), first, method)
    file = io.BytesIO()
    torch.save({"model": first.state_dict(), "method": method.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second.load_state_dict(saved["model"])
    second.A, second.b = first.A, first.b
    resumed = make(second)
    resumed.load_state_dict(saved["method"])
    run(range(stop, 7), second, resumed)
    assert torch.equal(second.x, whole.x)


def test_bad_pairs_are_named():
    bowls = Bowls()
    three = bowls.pair() | {"three": partial(bowls.loss, 0)}
    with pytest.raises(ValueError, match="takes one batch or two, got 3 entries: one, two, three"):
        DotProd(bowls).backward(three)
    with pytest.raises(TypeError, match="not one callable that returns a mapping"):
        DotProd(bowls).backward(lambda: {"one": bowls.loss(0)})
    method = DotProd(bowls)
    method.backward({"x": partial(bowls.loss, 0)})
    with pytest.raises(ValueError, match="A batch of 'x' waits for its partner, and a pair was given"):
        method.backward(bowls.pair())
    with pytest.raises(ValueError, match="SAM with batches=1 takes one batch a call"):
        SAM(bowls).backward(bowls.pair())
    with pytest.raises(ValueError, match="`radius` is -1"):
        SAM(bowls, radius=-1)


def test_weights_changed_between_the_batches_of_a_pair():
    bowls = Bowls()
    method = DotProd(bowls)
    method.backward({"x": partial(bowls.loss, 0)})
    with torch.no_grad():
        bowls.x += 1.0
    with pytest.warns(UserWarning, match="written to since the pair's first batch \\('x'\\)"):
        method.backward({"x": partial(bowls.loss, 1)})


SETTINGS = {
    "PairedSum": partial(PairedSum),
    "DotProd, exact": partial(DotProd, weight=0.5, max_ratio=math.inf),
    "DotProd, cosine": partial(DotProd, weight=0.5, max_ratio=math.inf, objective="cosine"),
    "DotProd, difference": partial(DotProd, weight=0.5, max_ratio=math.inf, mode="difference"),
    "SAM, batches=2": partial(SAM, batches=2, radius=0.3),
}


def halves(model):
    """The two halves of a pair, by name."""
    return [{str(i): partial(entropy, model, *examples(i))} for i in (0, 1)]


def by_call(method, model, between=lambda: None):
    """The gradient of a pair whose halves are given one a call."""
    first, second = halves(model)
    method.backward(first)
    between()
    report = method.backward(second)
    return delivered(model), report


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_loss_scale_changed_between_the_halves_of_a_pair(name, resumed):
    plain, model = same(Words, False, False)
    expected, told = by_call(SETTINGS[name](plain), plain)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    scaler.scale(torch.ones(1))  # which makes the scale
    method = SETTINGS[name](model, engine=scaler)

    def change():
        if resumed:
            method.load_state_dict(method.state_dict())
        scaler.update(1024.0)

    found, report = by_call(method, model, change)
    assert error(found / 1024.0, expected) < (1e-8 if "difference" in name else 1e-12)
    torch.testing.assert_close(report.gram, told.gram, rtol=1e-10, atol=0)


def test_a_loss_scale_changed_before_a_waiting_batch_is_finished():
    (model,) = same(Words, False)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    scaler.scale(torch.ones(1))
    method = PairedSum(model, engine=scaler)
    method.backward(halves(model)[0])
    scaler.update(1024.0)
    assert method.finish()
    expected = torch.autograd.grad(entropy(model, *examples(0)), list(model.parameters()))
    torch.testing.assert_close(delivered(model) / 1024.0, torch.cat([g.flatten() for g in expected]))


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_weight_frozen_between_the_halves_of_a_pair_was_moved(name, resumed):
    """As if it had been frozen before both."""
    (model,) = same(Words, False)
    model.more.requires_grad_(False)
    pair = {k: v for half in halves(model) for k, v in half.items()}
    SETTINGS[name](model).backward(pair)
    expected = delivered(model)
    model.zero_grad()
    model.more.requires_grad_(True)
    method = SETTINGS[name](model)

    def freeze():
        if resumed:
            method.load_state_dict(method.state_dict())
        model.more.requires_grad_(False)

    found, _ = by_call(method, model, freeze)
    assert model.more.weight.grad is None
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_a_weight_frozen_while_a_batch_waits_is_not_moved_at_the_end():
    (model,) = same(Words, False)
    method = PairedSum(model)
    method.backward(halves(model)[0])
    model.more.requires_grad_(False)
    assert method.finish()
    assert model.more.weight.grad is None
    assert model.words.weight.grad is not None


@pytest.mark.parametrize("name", SETTINGS)
def test_a_weight_unfrozen_between_the_halves_of_a_pair_is_refused(name):
    (model,) = same(Words, False)
    model.more.requires_grad_(False)
    method = SETTINGS[name](model)
    first, second = halves(model)
    method.backward(first)
    model.more.requires_grad_(True)
    with pytest.raises(ValueError, match=r"'more\.weight' was frozen when .* \('0'\) was run"):
        method.backward(second)
    assert all(p.grad is None for p in model.parameters())
    assert method.finish()  # the first one is still there


@pytest.mark.parametrize("make", [PairedSum, DotProd, partial(SAM, batches=2)])
def test_pairs_that_do_not_fill_a_window_of_an_odd_length(make):
    (model,) = same(Words, False)
    first, second = halves(model)
    with pytest.raises(ValueError, match="`every` is 3, of which 3 are left, and a pair was given"):
        make(model, every=3).backward(first | second)
    method = make(model, every=3)
    method.backward(first)  # an ordinary step
    method.backward(first | second)
    assert method.seen == 0
    method = make(model, every=4)
    method.backward(first)
    with pytest.raises(ValueError, match="`every` is 4, of which 3 are left, and a pair was given"):
        method.backward(first | second)
    assert method.seen == 1


def test_a_report_has_the_weights_that_the_batches_are_summed_with():
    bowls = Bowls()
    for reduction, weight in (("sum", 1.0), ("mean", 0.5)):
        method = PairedSum(bowls, reduction=reduction)
        report = method.backward(bowls.pair())
        assert report.weights.tolist() == [weight, weight]
        torch.testing.assert_close(bowls.x.grad, weight * (bowls.gradient(0) + bowls.gradient(1)))
        assert report.extras["dot"] == pytest.approx(float(bowls.gradient(0) @ bowls.gradient(1)))
        waiting = method.backward({"one": partial(bowls.loss, 0)})
        assert waiting.weights.tolist() == [1.0]
        assert waiting.gram.shape == (1, 1)
        assert math.isnan(waiting.gram)


def test_the_seed_is_0_unless_one_is_given():
    expected = torch.Generator().manual_seed(0).get_state()
    assert torch.equal(PairedSum(Bowls()).generator.get_state(), expected)
