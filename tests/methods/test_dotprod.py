"""DotProd: its term on quadratics, its cap, its objectives and its failures."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_problems import (
    SETTINGS,
    Bowls,
    Conv,
    Encoder,
    FusedCrossEntropy,
    flat,
    grad_of,
    loss,
    pair_of,
    problem,
    trained,
)
from torch.nn import functional as F

from gradaccord import SAM, DotProd
from gradaccord.methods.align import hessian_product


def term(bowls: Bowls, scheme: str) -> torch.Tensor:
    one_sided = -bowls.A[1] @ bowls.gradient(0)
    other = -bowls.A[0] @ bowls.gradient(1)
    return (one_sided + other) / 2 if scheme == "symmetric" else one_sided


@pytest.mark.parametrize("name", SETTINGS)
@given(seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_on_quadratics_the_term_is_minus_h2_g1(name, seed):
    bowls = Bowls(seed)
    options = SETTINGS[name]
    before = bowls.x.detach().clone()
    method = DotProd(bowls, weight=0.3, max_ratio=math.inf, **options)
    report = method.backward(bowls.pair())
    expected = term(bowls, options.get("scheme", "one-sided"))
    plain = bowls.gradient(0) + bowls.gradient(1)
    torch.testing.assert_close(bowls.x.grad, plain + 0.3 * expected, rtol=1e-7, atol=1e-7)
    assert torch.equal(bowls.x, before)  # bit for bit
    assert report.extras["product_norm"] == pytest.approx(float(expected.norm()), rel=1e-6)
    assert report.extras["dot"] == pytest.approx(float(bowls.gradient(0) @ bowls.gradient(1)))
    assert report.extras["ratio"] == pytest.approx(
        float(0.3 * expected.norm() / plain.norm()), rel=1e-6
    )


def test_reduction_mean_keeps_the_ratio():
    bowls = Bowls()
    DotProd(bowls, reduction="mean", max_ratio=math.inf).backward(bowls.pair())
    half = 0.5 * (bowls.gradient(0) + bowls.gradient(1) + 0.1 * term(bowls, "one-sided"))
    torch.testing.assert_close(bowls.x.grad, half)


def test_a_small_step_along_the_symmetric_term_raises_the_dot_product():
    for seed in range(20):
        bowls = Bowls(seed)
        before = bowls.gradient(0) @ bowls.gradient(1)
        DotProd(bowls, weight=1.0, scheme="symmetric", max_ratio=math.inf).backward(bowls.pair())
        direction = bowls.x.grad - bowls.gradient(0) - bowls.gradient(1)
        with torch.no_grad():
            bowls.x -= 1e-5 * direction  # descent, as an optimiser does
        assert bowls.gradient(0) @ bowls.gradient(1) > before


@given(seed=st.integers(0, 1000), weight=st.floats(0.01, 10), cap=st.floats(0.01, 1))
@settings(max_examples=30, deadline=None)
def test_the_term_is_never_longer_than_the_cap(seed, weight, cap):
    bowls = Bowls(seed)
    report = DotProd(bowls, weight=weight, max_ratio=cap).backward(bowls.pair())
    plain = bowls.gradient(0) + bowls.gradient(1)
    added = bowls.x.grad - plain
    assert added.norm() <= cap * plain.norm() * (1 + 1e-9)
    assert report.extras["capped"] == float(report.extras["ratio"] > cap)
    cosine = F.cosine_similarity(added, term(bowls, "one-sided"), dim=0)
    assert cosine == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("kind", [Encoder, Conv])
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("objective", ["dot", "cosine"])
def test_accumulation_over_micro_batches_equals_the_full_batch(kind, name, objective):
    model, batches = problem(kind)
    options = dict(SETTINGS[name], objective=objective, max_ratio=math.inf)
    DotProd(model, **options).backward(pair_of(model, batches))
    expected = grad_of(model)

    def counted(x, y):
        return loss(model, x, y), len(y)

    cuts = {"one": ((0, 1), (1, 4), (4, 6), (6, 8)), "two": ((0, 3), (3, 8))}
    pieces = {
        name: [partial(counted, x[a:b], y[a:b]) for a, b in cuts[name]]
        for name, (x, y) in zip(cuts, batches, strict=True)
    }
    DotProd(model, **options).backward(pieces)
    difference = SETTINGS[name]["mode"] == "difference"  # its rounding is divided by the step
    torch.testing.assert_close(
        grad_of(model),
        expected,
        rtol=1e-12 if not difference else 1e-9,
        atol=1e-14 if not difference else 1e-11,
    )


@pytest.mark.parametrize("scheme", ["one-sided", "symmetric"])
def test_the_cosine_objective_equals_autograd_of_the_cosine(scheme):
    model, batches = problem(Conv)
    parameters = list(model.parameters())
    one = flat(torch.autograd.grad(loss(model, *batches[0]), parameters, create_graph=True))
    two = flat(torch.autograd.grad(loss(model, *batches[1]), parameters, create_graph=True))
    cosine = F.cosine_similarity(one.detach(), two, dim=0, eps=0)
    expected = flat(torch.autograd.grad(cosine, parameters, retain_graph=True))
    if scheme == "symmetric":
        other = F.cosine_similarity(one, two.detach(), dim=0, eps=0)
        expected = (expected + flat(torch.autograd.grad(other, parameters))) / 2
    method = DotProd(model, objective="cosine", weight=1.0, scheme=scheme, max_ratio=math.inf)
    method.backward(pair_of(model, batches))
    found = -(grad_of(model) - one.detach() - two.detach())
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_22_a_true_term_at_weight_0_1_can_blow_training_up():
    """Where the curvature exceeds 2 / weight, the uncapped update ascends; the default does not."""

    def run(**options):
        bowls = Bowls(curvature=60.0)
        method = DotProd(bowls, weight=0.1, **options)
        optimizer = torch.optim.SGD(bowls.parameters(), lr=0.002)
        for _ in range(60):
            report = method.backward(bowls.pair())
            optimizer.step()
        return float((bowls.loss(0) + bowls.loss(1)).detach()), report

    start = Bowls(curvature=60.0)
    before = float((start.loss(0) + start.loss(1)).detach())
    uncapped, _ = run(max_ratio=math.inf)
    capped, report = run()
    assert not uncapped < before * 100  # inf or far away
    assert capped < before
    assert report.extras["capped_share"] > 0.5


def test_a_symmetric_term_across_a_checkpoint_says_what_it_needs():
    bowls = Bowls()
    method = DotProd(bowls, scheme="symmetric")
    method.backward({"x": partial(bowls.loss, 0)})
    fresh = DotProd(bowls, scheme="symmetric")
    fresh.load_state_dict(method.state_dict())
    with pytest.raises(
        ValueError, match="'x' comes from a checkpoint or a copy and cannot be run again"
    ):
        fresh.backward({"x": partial(bowls.loss, 1)})


@pytest.mark.parametrize("name", ["one-sided", "centred", "difference, symmetric"])
@pytest.mark.parametrize("pending", [False, True])
def test_a_loss_that_raises_in_the_displaced_pass_changes_nothing(name, pending):
    model, batches = problem(Conv, norm=True)
    method = DotProd(model, **SETTINGS[name])
    one, two = pair_of(model, batches).values()
    if pending:
        method.backward({"x": one})
    state, weights = method.state_dict(), [p.detach().clone() for p in model.parameters()]
    calls = 0

    def breaks():
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError("disk full")
        return two()

    with pytest.raises(OSError, match="disk full"):
        method.backward({"x": breaks} if pending else {"x": one, "y": breaks})
    assert all(torch.equal(p, w) for p, w in zip(model.parameters(), weights, strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert str(method.state_dict()) == str(state)


def test_noise_control_has_the_same_length_and_no_direction():
    model, batches = problem(Encoder)
    gradients = {}
    for name, options in {"pair": {"weight": 0.0}, "dot": {}, "noise": {"control": "noise"}}.items():
        DotProd(model, **options).backward(pair_of(model, batches))
        gradients[name] = grad_of(model)
    true, noise = gradients["dot"] - gradients["pair"], gradients["noise"] - gradients["pair"]
    assert noise.norm() == pytest.approx(float(true.norm()), rel=1e-9)
    assert abs(F.cosine_similarity(true, noise, dim=0)) < 0.2
    torch.testing.assert_close(noise.abs(), true.abs(), rtol=1e-6, atol=1e-12)


def test_a_zero_gradient_in_batch_one_skips_the_term():
    bowls = Bowls()
    for options in SETTINGS.values():
        report = DotProd(bowls, **options).backward(
            {"flat": lambda: (bowls.x * 0).sum() + 1, "two": partial(bowls.loss, 1)}
        )
        torch.testing.assert_close(bowls.x.grad, bowls.gradient(1))
        assert math.isfinite(report.extras.get("ratio", 0.0))


def test_any_optimiser_learns_with_dotprod():
    for make in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop):
        model, batches = problem(Encoder)
        optimizer = make(model.parameters(), lr=0.01)
        method = DotProd(model)
        before = float(loss(model, *batches[0]).detach())
        for _ in range(15):
            method.backward(pair_of(model, batches))
            optimizer.step()
            optimizer.zero_grad()
        assert float(loss(model, *batches[0]).detach()) < before


@pytest.mark.parametrize("name", ["exact", "one-sided", "centred"])
def test_a_gradient_scaler_changes_nothing(name):
    grads = []
    for scaler in (None, torch.amp.GradScaler("cpu", init_scale=2.0**10)):
        model, batches = problem(Conv)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        method = DotProd(model, engine=scaler, **SETTINGS[name])
        report = method.backward(pair_of(model, batches))
        if scaler is not None:
            scaler.unscale_(optimizer)
        grads.append((grad_of(model), report.extras["product_norm"], report.extras["dot"]))
    torch.testing.assert_close(grads[1][0], grads[0][0], rtol=1e-7, atol=1e-9)
    assert grads[1][1:] == pytest.approx(grads[0][1:], rel=1e-6)


def test_check_tells_noise_from_product():
    model, batches = problem(Conv, dtype=torch.float32)
    trained(model, batches, 60)
    model.zero_grad()
    state = torch.get_rng_state()
    good = DotProd(model, mode="difference").check(pair_of(model, batches))
    paper = DotProd.paper(model).check(pair_of(model, batches))
    assert good.relative_error < 0.01
    assert good.cosine > 0.9999
    assert "good" in str(good)
    assert paper.relative_error > 10 * good.relative_error
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_check_finds_the_product_on_quadratics():
    bowls = Bowls()
    check = DotProd(bowls, mode="difference").check(bowls.pair())
    assert check.relative_error < 1e-6
    assert check.cosine == pytest.approx(1.0, abs=1e-9)
    assert check.product_norm == pytest.approx(float(term(bowls, "one-sided").norm()), rel=1e-9)


def test_the_share_of_capped_terms_is_over_all_terms():
    bowls = Bowls()
    method = DotProd(bowls)
    shares = []
    for method.max_ratio in (1e-9, math.inf, math.inf, 1e-9):
        shares.append(method.backward(bowls.pair()).extras["capped_share"])
    assert shares == [1.0, 1 / 2, 1 / 3, 2 / 4]


def test_the_ratio_of_gradients_much_smaller_than_one():
    bowls = Bowls()
    small = {name: lambda call=call: 1e-3 * call() for name, call in bowls.pair().items()}
    report = DotProd(bowls).backward(small)
    plain = 1e-3 * (bowls.gradient(0) + bowls.gradient(1))
    product = 1e-6 * term(bowls, "one-sided")
    assert report.extras["ratio"] == pytest.approx(float(0.1 * product.norm() / plain.norm()))


def test_the_graph_is_searched_until_an_exact_product_has_worked(monkeypatch):
    searched = []
    monkeypatch.setattr(hessian_product, "_refuse_errors", searched.append)
    bowls = Bowls()
    method = DotProd(bowls)
    for _ in range(3):
        method.backward(bowls.pair())
    assert len(searched) == 1


def test_the_papers_setting():
    method = DotProd.paper(Bowls())
    assert (method.mode, method.step, method.weight, method.max_ratio) == (
        "difference",
        1e-7,
        0.1,
        math.inf,
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"every": 1}, "`every` is 1: it must be a whole number >= 2"),
        ({"weight": float("nan")}, "`weight` is nan: it must be a finite number"),
        ({"weight": float("inf")}, "`weight` is inf"),
        ({"mode": "hvp"}, "`mode` is 'hvp': use 'exact' or 'difference'"),
        ({"scheme": "centred"}, "`scheme` is 'centred', which is a kind of difference"),
        ({"scheme": "left"}, "`scheme` is 'left'"),
        ({"objective": "norm"}, "`objective` is 'norm'"),
        ({"step": 0.0}, "`step` is 0.0: use 'auto' or a positive number"),
        ({"step": "small"}, "`step` is 'small'"),
        ({"max_ratio": 0}, "`max_ratio` is 0: it must be positive"),
        ({"control": "shuffle"}, "`control` is 'shuffle'"),
        ({"reduction": "max"}, "`reduction` is 'max'"),
    ],
)
def test_bad_options_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        DotProd(Bowls(), **options)


def test_a_failed_fallback_keeps_the_mode():
    bowls = Bowls()
    calls = 0

    def broken():
        nonlocal calls
        calls += 1
        if calls > 2:  # the exact product and the search for the module run, the difference does not
            raise OSError("disk full")
        return FusedCrossEntropy.apply(bowls.x[None, :3] * 1.0, torch.tensor([0]))

    method = DotProd(bowls)
    with pytest.raises(OSError, match="disk full"):
        method.backward({"one": partial(bowls.loss, 0), "two": broken})
    assert method.mode == "exact"


def test_a_gradient_that_is_not_finite_is_reported():
    bowls = Bowls()
    report = SAM(bowls).backward({"x": lambda: (bowls.x * 0).sum().abs().sqrt()})
    assert not report.finite
    with pytest.raises(ValueError, match="`every` is 7, which only applies to batches=2"):
        SAM(bowls, every=7)
    assert DotProd(bowls, step=1).step == 1
