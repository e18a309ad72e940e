"""Products with a Hessian: exact against autograd, differences and their limits."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from pair_problems import (
    SETTINGS,
    Conv,
    Encoder,
    FusedCrossEntropy,
    Words,
    delivered,
    entropy,
    error,
    examples,
    flat,
    grad_of,
    loss,
    pair_of,
    problem,
    same,
    trained,
)
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradaccord import DotProd, PairedSum


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


@pytest.mark.parametrize("kind", [Encoder, Conv])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_exact_mode_equals_an_independent_double_backward(kind, dropout):
    model, batches = problem(kind, dropout=dropout)
    first, second, product = double_backward(model, batches, seed=7)
    torch.manual_seed(7)
    DotProd(model, weight=0.2, max_ratio=math.inf).backward(pair_of(model, batches))
    torch.testing.assert_close(grad_of(model), first + second - 0.2 * product, rtol=1e-10, atol=1e-12)


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


def test_what_takes_whole_numbers_is_frozen_or_idle_is_not_named_as_the_culprit():
    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag, self.words = nn.EmbeddingBag(20, 8), nn.Embedding(20, 8)
            self.head = nn.Linear(8, 3).requires_grad_(False)
            self.head.idle = nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return self.head(self.bag(x) + self.words(x).mean(1))

    model = Bags().double()
    batches = [(torch.randint(0, 20, (8, 4)), torch.randint(0, 3, (8,))) for _ in range(2)]
    with pytest.warns(UserWarning, match=r"EmbeddingBag \('bag'\) cannot be differentiated twice"):
        DotProd(model).backward(pair_of(model, batches))


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


def by_hand(model, losses, weight):
    """G1 + G2 - weight * H2 G1 by double backward, of all trainable weights as one vector."""
    weights = [p for p in model.parameters() if p.requires_grad]
    first, second = (
        torch.autograd.grad(call(), weights, create_graph=True, allow_unused=True) for call in losses
    )
    first, second = (
        [torch.zeros_like(p) if g is None else g for p, g in zip(weights, found, strict=True)]
        for found in (first, second)
    )
    dot = sum((a.detach() * b).sum() for a, b in zip(first, second, strict=True))
    product = torch.autograd.grad(dot, weights, allow_unused=True)
    parts = zip(weights, first, second, product, strict=True)
    return torch.cat(
        [
            (a + b - weight * (torch.zeros_like(p) if h is None else h)).detach().flatten()
            for p, a, b, h in parts
        ]
    )


class Blocks(nn.Module):
    """An embedding that is not trained, and two blocks that are, each in an activation checkpoint."""

    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.words = nn.Embedding(20, 5).requires_grad_(False)
        self.blocks = nn.ModuleList([nn.Linear(5, 5), nn.Linear(5, 5)])
        self.norm = nn.BatchNorm1d(5)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(5, 3)

    def block(self, i, hidden):
        return self.dropout(torch.tanh(self.blocks[i](hidden)))

    def forward(self, x):
        hidden = self.words(x).mean(1).requires_grad_()  # as PEFT does it
        for i in range(2):
            if self.reentrant is None:
                hidden = self.block(i, hidden)
            else:
                hidden = checkpoint(self.block, i, hidden, use_reentrant=self.reentrant)
        return self.head(self.norm(hidden))


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_exact_product_dropped_what_lies_in_a_reentrant_checkpoint(micro_batches):
    plain, kept, dropped = same(Blocks, None, False, True)
    second = [partial(entropy, plain, *examples(i)) for i in range(1, micro_batches + 1)]
    torch.manual_seed(1)  # dropout
    expected = by_hand(
        plain,
        [partial(entropy, plain, *examples(0)), lambda: sum(c() for c in second) / micro_batches],
        0.5,
    )

    def backward(model):
        method = DotProd(model, weight=0.5, max_ratio=math.inf)
        torch.manual_seed(1)
        second = [partial(entropy, model, *examples(i)) for i in range(1, micro_batches + 1)]
        method.backward({"one": partial(entropy, model, *examples(0)), "two": second})
        return method

    assert backward(kept).mode == "exact"
    assert error(delivered(kept), expected) < 1e-12
    with pytest.warns(UserWarning, match="Reentrant activation checkpointing .* cannot be diff"):
        assert backward(dropped).mode == "difference"
    assert error(delivered(dropped), expected) < 1e-3
    torch.testing.assert_close(dropped.norm.running_mean, plain.norm.running_mean)


def test_a_reentrant_checkpoint_switched_on_after_an_exact_product_has_worked():
    plain, model = same(Blocks, None, None)
    method = DotProd(model, weight=0.5, max_ratio=math.inf)
    for reentrant in (None, True):
        model.reentrant = reentrant
        torch.manual_seed(1)
        expected = by_hand(plain, [partial(entropy, plain, *examples(i)) for i in (0, 1)], 0.5)
        torch.manual_seed(1)
        pair = {str(i): partial(entropy, model, *examples(i)) for i in (0, 1)}
        if reentrant:
            with pytest.warns(UserWarning, match="Reentrant activation checkpointing"):
                method.backward(pair)
        else:
            method.backward(pair)
        assert error(delivered(model), expected) < 1e-3
        torch.testing.assert_close(model.norm.running_mean, plain.norm.running_mean)


def test_a_reentrant_checkpoint_in_the_first_batch_of_a_symmetric_pair():
    plain, model = same(Blocks, None, None)
    plain.eval()
    model.eval()
    calls = [partial(entropy, plain, *examples(i)) for i in (0, 1)]
    expected = (by_hand(plain, calls, 0.5) + by_hand(plain, calls[::-1], 0.5)) / 2

    def checkpointed(reentrant):
        model.reentrant = reentrant
        try:
            return entropy(model, *examples(0))
        finally:
            model.reentrant = None

    method = DotProd(model, weight=0.5, max_ratio=math.inf, scheme="symmetric")
    first = [partial(checkpointed, None), partial(checkpointed, True)]
    with pytest.warns(UserWarning, match="Reentrant activation checkpointing"):
        method.backward({"one": first, "two": partial(entropy, model, *examples(1))})
    assert error(delivered(model), expected) < 1e-3


def test_lora_on_bert_with_reentrant_checkpointing_lost_most_of_its_gradient():
    from peft import LoraConfig, get_peft_model
    from transformers import BertConfig, BertForSequenceClassification

    def make(checkpointed):
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
        config = BertConfig(
            vocab_size=60, num_hidden_layers=2, num_labels=3, attn_implementation="eager", **sizes
        )
        lora = LoraConfig(
            r=2, target_modules=["query", "value"], task_type="SEQ_CLS", init_lora_weights=False
        )
        model = get_peft_model(BertForSequenceClassification(config), lora).double()
        if checkpointed:
            model.enable_input_require_grads()
            model.gradient_checkpointing_enable({"use_reentrant": True})
        return model

    def of(model, seed):
        x, y = examples(seed, rows=60)
        return lambda: model(input_ids=x, labels=y).loss

    plain, model = make(False), make(True)
    torch.manual_seed(1)  # dropout
    expected = by_hand(plain, [of(plain, 0), of(plain, 1)], 0.5)
    torch.manual_seed(1)
    method = DotProd(model, weight=0.5, max_ratio=math.inf)
    with pytest.warns(UserWarning, match="Reentrant activation checkpointing"):
        method.backward({"one": of(model, 0), "two": of(model, 1)})
    assert error(delivered(model), expected) < 1e-3


@pytest.mark.parametrize("rows", [20, 3000])  # from 2048 rows on, gradients are kept by rows anyway
@pytest.mark.parametrize("scheme", ["one-sided", "symmetric"])
@pytest.mark.parametrize("mode", ["exact", "difference"])
@pytest.mark.parametrize("objective", ["dot", "cosine"])
def test_a_sparse_embedding_broke_the_exact_product(rows, scheme, mode, objective):
    dense, sparse = same(partial(Words, rows=rows), False, True)
    options = {"weight": 0.5, "max_ratio": math.inf, "scheme": scheme, "objective": objective}
    reports = []
    for model, how in ((dense, "exact"), (sparse, mode)):
        second = [partial(entropy, model, *examples(i, rows=rows)) for i in (1, 2)]
        pair = {"one": partial(entropy, model, *examples(0, rows=rows)), "two": second}
        method = DotProd(model, mode=how, **options)
        reports.append(method.backward(pair))
        assert method.mode == how
    assert sparse.words.weight.grad.is_sparse  # or SparseAdam would refuse it
    tolerance = 1e-12 if mode == "exact" else 1e-3
    assert error(delivered(sparse), delivered(dense)) < tolerance
    assert reports[1].extras["dot"] == pytest.approx(reports[0].extras["dot"])
    torch.optim.SparseAdam([sparse.words.weight]).step()
