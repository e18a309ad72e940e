"""DotProd, PairedSum and SAM where torch is used in less usual ways: right, or refused."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradaccord import SAM, DotProd, PairedSum


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


def delivered(model):
    """What stands in `.grad` of the trainable weights, as one vector."""
    parts = []
    for p in model.parameters():
        if p.requires_grad:
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            parts.append((grad.to_dense() if grad.is_sparse else grad).flatten())
    return torch.cat(parts)


def error(found, expected):
    return float((found - expected).norm() / expected.norm())


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


def examples(seed, size=8, rows=20):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, rows, (size, 4), generator=generator)
    return x, torch.randint(0, 3, (size,), generator=generator)


def entropy(model, x, y):
    return F.cross_entropy(model(x), y)


def same(kind, *options):
    """One model in several forms, with the same weights in float64."""
    torch.manual_seed(0)
    models = [kind(option).double() for option in options]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    return models


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


class Words(nn.Module):
    """An embedding with row-sparse gradients, which torch cannot differentiate twice."""

    def __init__(self, sparse, rows=20):
        super().__init__()
        self.words = nn.Embedding(rows, 5, sparse=sparse, padding_idx=0)
        self.more = nn.Embedding(rows, 5, sparse=sparse)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.words(x) * self.more(x) + self.words(x.flip(1))).mean(1))


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
