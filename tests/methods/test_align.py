"""DotProd, its controls and SAM: against closed forms, double backward and what others get wrong."""

from __future__ import annotations

import io
import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import gradaccord
from gradaccord import SAM, DotProd, PairedSum

SETTINGS = {
    "exact": {"mode": "exact"},
    "exact, symmetric": {"mode": "exact", "scheme": "symmetric"},
    "one-sided": {"mode": "difference"},
    "centred": {"mode": "difference", "scheme": "centred"},
    "difference, symmetric": {"mode": "difference", "scheme": "symmetric"},
}


class Bowls(nn.Module):
    """Two quadratic losses in one vector: L_i = 1/2 x'A_i x - b_i'x."""

    def __init__(self, seed: int = 0, size: int = 5, curvature: float = 1.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        root = torch.randn(2, size, size, generator=generator, dtype=torch.float64)
        self.A = curvature * (root @ root.mT) / size
        self.b = torch.randn(2, size, generator=generator, dtype=torch.float64)
        self.x = nn.Parameter(torch.randn(size, generator=generator, dtype=torch.float64))

    def loss(self, i: int) -> torch.Tensor:
        return 0.5 * self.x @ self.A[i] @ self.x - self.b[i] @ self.x

    def gradient(self, i: int) -> torch.Tensor:
        return self.A[i] @ self.x.detach() - self.b[i]

    def pair(self):
        return {"one": partial(self.loss, 0), "two": partial(self.loss, 1)}


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


# Real networks


class Encoder(nn.Module):
    """A small transformer, whose attention is a fused kernel by default."""

    def __init__(self, dropout: float = 0.0, width: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(30, width)
        layer = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.words(x)).mean(1))

    @staticmethod
    def inputs(generator: torch.Generator, size: int) -> torch.Tensor:
        return torch.randint(0, 30, (size, 6), generator=generator)


class Conv(nn.Module):
    """A smooth convolutional network with batch norm."""

    def __init__(self, dropout: float = 0.0, norm: bool = False) -> None:
        super().__init__()
        layers = [nn.Conv2d(1, 4, 3), nn.GELU(), nn.AvgPool2d(2), nn.Dropout(dropout)]
        if norm:
            layers.insert(1, nn.BatchNorm2d(4))
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 9, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    @staticmethod
    def inputs(generator: torch.Generator, size: int) -> torch.Tensor:
        return torch.randn(size, 1, 8, 8, generator=generator)


def problem(kind, seed=0, size=8, dtype=torch.float64, **options):
    """A model and two batches."""
    torch.manual_seed(seed)
    model = kind(**options).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(2):
        x = kind.inputs(generator, size)
        x = x.to(dtype) if x.is_floating_point() else x
        batches.append((x, torch.randint(0, 3, (size,), generator=generator)))
    return model, batches


def loss(model, x, y):
    return F.cross_entropy(model(x), y)


def pair_of(model, batches):
    return {name: partial(loss, model, *b) for name, b in zip(("one", "two"), batches, strict=True)}


def flat(tensors):
    return torch.cat([t.flatten() for t in tensors])


def double_backward(model, batches, seed=None):
    """G1, G2 and H2 G1, written out by hand; the dropout masks of both batches follow `seed`."""
    parameters = list(model.parameters())
    if seed is not None:
        torch.manual_seed(seed)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        first = torch.autograd.grad(loss(model, *batches[0]), parameters)
        second = torch.autograd.grad(loss(model, *batches[1]), parameters, create_graph=True)
        dot = sum((a * b).sum() for a, b in zip(first, second, strict=True))
        product = torch.autograd.grad(dot, parameters)
    return flat(first), flat(second).detach(), flat(product)


def grad_of(model):
    return flat([p.grad for p in model.parameters()])


@pytest.mark.parametrize("kind", [Encoder, Conv])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_exact_mode_equals_an_independent_double_backward(kind, dropout):
    model, batches = problem(kind, dropout=dropout)
    first, second, product = double_backward(model, batches, seed=7)
    torch.manual_seed(7)
    DotProd(model, weight=0.2, max_ratio=math.inf).backward(pair_of(model, batches))
    torch.testing.assert_close(grad_of(model), first + second - 0.2 * product, rtol=1e-10, atol=1e-12)


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

    cuts = ((0, 1), (1, 4), (4, 6), (6, 8))
    pieces = {
        name: [partial(counted, x[a:b], y[a:b]) for a, b in cuts]
        for name, (x, y) in zip(("one", "two"), batches, strict=True)
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


def trained(model, batches, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        for batch in batches:
            optimizer.zero_grad()
            loss(model, *batch).backward()
            optimizer.step()
    model.zero_grad()
    return float(loss(model, *batches[0]).detach())


def errors(model, batches):
    """Relative error of float32 differences against the float64 product, by setting."""
    twin = problem(type(model))[0]
    twin.load_state_dict(model.state_dict())
    exact = double_backward(
        twin, [(x.double() if x.is_floating_point() else x, y) for x, y in batches]
    )[2]
    found = {}
    for name, options in {
        "one-sided": {},
        "centred": {"scheme": "centred"},
        "paper": {"step": 1e-7},
    }.items():
        model.zero_grad()
        PairedSum(model).backward(pair_of(model, batches))
        plain = grad_of(model).double()
        method = DotProd(model, mode="difference", weight=1.0, max_ratio=math.inf, **options)
        method.backward(pair_of(model, batches))
        product = -(grad_of(model).double() - plain)
        found[name] = float((product - exact).norm() / exact.norm())
    return found


@pytest.mark.parametrize(("kind", "steps"), [(Encoder, 10), (Conv, 60)])
def test_17_alpha_of_1e_7_in_float32_is_mostly_rounding_noise(kind, steps):
    model, batches = problem(kind, dtype=torch.float32)
    at_start = errors(model, batches)
    assert trained(model, batches, steps) < 0.02
    late = errors(model, batches)
    for found in (at_start, late):
        assert found["one-sided"] < 0.01
        assert found["centred"] < 0.01
        assert found["paper"] > 10 * found["one-sided"]
    assert late["paper"] > 0.3


@pytest.mark.parametrize("name", ["one-sided", "centred", "difference, symmetric"])
def test_18_different_dropout_masks_in_the_displaced_pass(name):
    model, batches = problem(Encoder, dropout=0.3)
    outcomes = []
    for options in ({"mode": "exact"}, SETTINGS[name]):
        scheme = SETTINGS[name].get("scheme", "one-sided")
        if options["mode"] == "exact" and scheme == "symmetric":
            options = SETTINGS["exact, symmetric"]
        torch.manual_seed(5)
        DotProd(model, weight=1.0, max_ratio=math.inf, **options).backward(pair_of(model, batches))
        outcomes.append((grad_of(model), torch.rand(1)))
    (exact, after), (difference, after_too) = outcomes
    assert (difference - exact).norm() / exact.norm() < 0.02
    assert torch.equal(after, after_too)  # and the random stream goes on alike


def test_19_kinks_make_differences_wrong_at_any_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    batches = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(2)]
    with pytest.warns(UserWarning, match=r"ReLU \('1'\) has kinks.*use mode='exact'"):
        DotProd(model, mode="difference").backward(pair_of(model, batches))
    DotProd(model).backward(pair_of(model, batches))  # exact: no warning


def test_20_fused_attention_has_no_double_backward():
    model, batches = problem(Encoder)
    before = [
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
    ]
    method = DotProd(model)
    method.backward(pair_of(model, batches))
    assert method.mode == "exact"
    assert before == [
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
    ]


def test_20_fallback_names_the_module_and_leaves_no_trace():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.EmbeddingBag(20, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3)
    ).double()
    batches = [(torch.randint(0, 20, (8, 4)), torch.randint(0, 3, (8,))) for _ in range(2)]
    start = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(1)
    DotProd(model, mode="difference").backward(pair_of(model, batches))
    expected, after = grad_of(model), {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(start)
    method = DotProd(model)
    torch.manual_seed(1)
    with pytest.warns(UserWarning, match=r"EmbeddingBag \('0'\) cannot be differentiated twice"):
        method.backward(pair_of(model, batches))
    assert torch.equal(grad_of(model), expected)
    assert all(torch.equal(v, after[k]) for k, v in model.state_dict().items())
    method.backward(pair_of(model, batches))  # and no second warning


@pytest.mark.parametrize("name", SETTINGS)
def test_21_running_statistics_updated_a_second_time(name):
    models = []
    for method in (PairedSum, partial(DotProd, **SETTINGS[name])):
        model, batches = problem(Conv, norm=True)
        method(model).backward(pair_of(model, batches))
        models.append(model)
    for key, value in models[0].state_dict().items():
        assert torch.equal(models[1].state_dict()[key], value), key
    assert int(models[1].body[1].num_batches_tracked) == 2


def test_21_half_precision_weights_that_never_move():
    model, batches = problem(Conv, dtype=torch.bfloat16)
    with pytest.warns(UserWarning, match="weights are torch.bfloat16.*keep them in float32"):
        DotProd(model, mode="difference").backward(pair_of(model, batches))


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


# The frame: pairs, windows, state


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


def test_sam_on_quadratics():
    bowls = Bowls()
    SAM(bowls, radius=0.3).backward({"one": partial(bowls.loss, 0)})
    unit = bowls.gradient(0) / bowls.gradient(0).norm()
    torch.testing.assert_close(bowls.x.grad, bowls.gradient(0) + 0.3 * bowls.A[0] @ unit)
    SAM(bowls, radius=0.3, batches=2).backward(bowls.pair())
    expected = bowls.gradient(0) + bowls.gradient(1) + 0.3 * bowls.A[1] @ unit
    torch.testing.assert_close(bowls.x.grad, expected)


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


def test_every_method_follows_the_protocol():
    for make in (DotProd, PairedSum, SAM):
        assert isinstance(make(Bowls()), gradaccord.Method)


class Aliased(nn.Module):
    """Two weights with one gradient tensor, and one whose gradient is a number seen many times."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.a, self.b, self.c = (
            nn.Parameter(torch.randn(3, 4, generator=generator, dtype=torch.float64)) for _ in range(3)
        )

    def forward(self, x):
        return F.linear(x, self.a + self.b) + 0.1 * self.c.sum()


@pytest.mark.parametrize("options", [{"mode": "exact"}, {"mode": "exact", "objective": "cosine"}])
def test_gradients_that_share_memory_are_counted_once(options):
    torch.manual_seed(0)
    model = Aliased()
    x, y = torch.randn(6, 4).double(), torch.randint(0, 3, (6,))

    def squared(rows):
        return (model(x[rows]) - F.one_hot(y[rows], 3)).square().mean() * 3, len(y[rows])

    one = partial(squared, slice(0, 6))
    grads = []
    for second in ([partial(squared, slice(0, 2)), partial(squared, slice(2, 6))], [one]):
        DotProd(model, max_ratio=math.inf, **options).backward({"1": one, "2": second})
        grads.append(grad_of(model))
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-12, atol=1e-14)


class FusedCrossEntropy(torch.autograd.Function):
    """A loss that computes its gradient on the way forward, as fused kernels do."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward((x.softmax(-1) - F.one_hot(y, x.shape[-1])) / len(y))
        return F.cross_entropy(x, y)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


def test_a_loss_with_a_gradient_of_its_own_does_not_pass_for_a_constant():
    model, batches = problem(Conv)
    fused = {
        name: (lambda x=x, y=y: FusedCrossEntropy.apply(model(x), y))
        for name, (x, y) in zip(("one", "two"), batches, strict=True)
    }
    expected = DotProd(model).backward(pair_of(model, batches)).extras["product_norm"]
    method = DotProd(model)
    with pytest.warns(UserWarning, match="the loss cannot be differentiated twice"):
        found = method.backward(fused).extras["product_norm"]
    assert found == pytest.approx(expected, rel=0.01)


def test_differences_under_autocast_are_noise_and_said_to_be():
    model, batches = problem(Conv, dtype=torch.float32)

    def cast(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(model, x, y)

    pair = {name: partial(cast, *b) for name, b in zip(("one", "two"), batches, strict=True)}
    with pytest.warns(UserWarning, match="run under autocast, whose rounding drowns"):
        DotProd(model, mode="difference").backward(pair)
    DotProd(model).backward(pair)  # exact: no warning


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


def test_weights_changed_between_the_batches_of_a_pair():
    bowls = Bowls()
    method = DotProd(bowls)
    method.backward({"x": partial(bowls.loss, 0)})
    with torch.no_grad():
        bowls.x += 1.0
    with pytest.warns(UserWarning, match="written to since the pair's first batch \\('x'\\)"):
        method.backward({"x": partial(bowls.loss, 1)})


def test_a_gradient_that_is_not_finite_is_reported():
    bowls = Bowls()
    report = SAM(bowls).backward({"x": lambda: (bowls.x * 0).sum().abs().sqrt()})
    assert not report.finite
    with pytest.raises(ValueError, match="`every` is 7, which has a meaning for batches=2 alone"):
        SAM(bowls, every=7)
    assert DotProd(bowls, step=1).step == 1
