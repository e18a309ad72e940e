"""SWEP: starts at its prior, gradients as the formula's, silent in eval mode, at home in methods."""

from __future__ import annotations

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradaccord
from gradaccord.regularize.swep import PRIOR, SWEP

pytestmark = pytest.mark.usefixtures("one_thread")


class Tagger(nn.Module):
    """Words, a contextual layer, and a head on the mean for each task."""

    def __init__(self, dropout=0.0, norm=False):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(40, 6, padding_idx=0)
        self.mix = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.heads = nn.ModuleDict({t: nn.Linear(5, 3) for t in "abc"})
        self.double()

    def forward(self, task, tokens, labels):
        hidden = self.dropout(self.mix(self.words(tokens)))
        pooled = self.norm(torch.tanh(hidden).sum(1) / (tokens != 0).sum(1, keepdim=True))
        return F.cross_entropy(self.heads[task](pooled), labels)


def given(seed=0):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, 40, (7, 4), generator=generator)
    tokens[:2, 3] = 0
    return tokens, torch.randint(3, (7,), generator=generator)


def build(dropout=0.0, norm=False, **options):
    model = Tagger(dropout, norm)
    return model, SWEP(model, module="words", encoder="mix", hidden_size=5, **options)


def test_it_starts_at_the_prior_with_no_divergence():
    model, swep = build()
    mean, log_variance = swep.network(torch.randn(2, 3, 5, dtype=torch.float64)).chunk(2, -1)
    assert torch.equal(mean, torch.ones_like(mean))
    torch.testing.assert_close(log_variance, torch.full_like(mean, math.log(PRIOR)))
    assert pytest.approx(1 / 3) == PRIOR
    swep.loss(partial(model, "a", *given()))()
    assert swep.to_floats()["swep/kl"] == pytest.approx(0, abs=1e-12)


def test_loss_and_gradients_are_the_formulas():
    model, swep = build(beta=0.3)
    with torch.no_grad():
        swep.network[2].weight.normal_(0, 0.2, generator=torch.Generator().manual_seed(1))
        model.words.weight[0] = 1.0  # so that noise on padding would be seen
    tokens, labels = given()
    torch.manual_seed(4)
    swep.loss(partial(model, "a", tokens, labels))().backward()
    found = {n: p.grad.clone() for n, p in swep.named_parameters() if p.grad is not None}
    swep.zero_grad()

    torch.manual_seed(4)
    real = tokens != 0
    states = model.mix(model.words(tokens)).detach()
    mean, log_variance = swep.network(states).chunk(2, -1)
    z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)

    def nll(e):
        pooled = torch.tanh(model.mix(e)).sum(1) / real.sum(1, keepdim=True)
        return F.cross_entropy(model.heads["a"](pooled), labels)

    e = model.words(tokens)
    posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    prior = torch.distributions.Normal(torch.ones_like(mean), math.sqrt(PRIOR))
    kl = torch.distributions.kl_divergence(posterior, prior).sum(-1)[real].mean()
    noisy = nll(e * torch.where(real[..., None], z, 1.0))
    (0.5 * nll(e) + 0.5 * noisy + 0.3 * kl).backward()
    expected = {n: p.grad for n, p in swep.named_parameters() if p.grad is not None}
    assert expected.keys() == found.keys()
    assert any(n.startswith("network") for n in found)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("off", ["eval", "no_grad", "zero weight", "before start", "after stop"])
def test_off_is_the_plain_loss_bit_for_bit_with_its_random_stream(off):
    options = {
        "zero weight": {"weight": 0.0},
        "before start": {"start": 1},
        "after stop": {"stop": 1},
    }.get(off, {})
    model, swep = build(dropout=0.4, **options)
    model.train(off != "eval")
    if off == "after stop":
        swep.after_step()
    with torch.set_grad_enabled(off != "no_grad"):
        torch.manual_seed(3)
        expected = model("a", *given())
        state = torch.get_rng_state()
        torch.manual_seed(3)
        found = swep.loss(partial(model, "a", *given()))()
    assert torch.equal(found, expected)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "method",
    [
        gradaccord.PCGrad,
        gradaccord.GradVac,
        partial(gradaccord.DotProd, weight=0.01),
        partial(gradaccord.DotProd, weight=0.01, mode="difference"),
    ],
    ids=["PCGrad", "GradVac", "DotProd", "DotProd by differences"],
)
@pytest.mark.filterwarnings("ignore:ReLU .* has kinks")  # the network's own, as in the paper
def test_trains_model_and_network_under_a_method(method):
    model, swep = build(dropout=0.1, beta=0.01, weight={"a": 0.5, "b": 0.2, "c": 0.0})
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": swep.network.parameters(), "lr": 1e-3}], lr=0.03
    )
    method = method(swep)
    pairs = isinstance(method, gradaccord.DotProd)
    start = copy.deepcopy(swep.network.state_dict())
    before = sum(float(model(t, *given(i)).detach()) for i, t in enumerate("abc"))
    for step in range(30):
        if pairs:
            losses = {
                n: swep.loss(partial(model, "a", *given(i)), task="a") for i, n in enumerate("xy")
            }
        else:
            losses = {t: swep.loss(partial(model, t, *given(i)), task=t) for i, t in enumerate("abc")}
        report = method.backward(losses)
        if step == 0:
            assert all(p.grad is not None for p in swep.network.parameters())
        optimizer.step()
        method.after_step()
        swep.after_step()
        optimizer.zero_grad()
    model.eval()
    tasks = "a" if pairs else "abc"
    after = sum(float(model(t, *given(i)).detach()) for i, t in enumerate(tasks))
    assert after < 0.8 * before * len(tasks) / 3
    moved = {n: not torch.equal(v, start[n]) for n, v in swep.network.state_dict().items()}
    assert all(moved.values())
    log = report.to_floats() | swep.to_floats()
    assert log["swep/kl/a"] >= 0
    assert "swep/kl/c" not in log


def test_accumulation_and_batch_norm():
    model, swep = build(norm=True)
    other = copy.deepcopy(model)
    calls = [swep.loss(partial(model, "a", *given(s))) for s in (0, 1)]
    gradaccord.Sum(swep).backward({"a": calls})
    for seed in (0, 1):
        other("a", *given(seed))
    for name, buffer in other.named_buffers():
        torch.testing.assert_close(dict(model.named_buffers())[name], buffer)


def bert():
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=3,
    )
    return BertForSequenceClassification(config)


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0, pad_token_id=0))


def lora():
    from peft import LoraConfig, get_peft_model

    return get_peft_model(bert(), LoraConfig(r=2, target_modules=["query"], task_type="SEQ_CLS"))


def compiled():
    return torch.compile(bert(), backend="aot_eager")


@pytest.mark.parametrize("make", [bert, t5, lora, compiled])
def test_hugging_face_models_in_bfloat16_autocast(make):
    model = make()
    ids = torch.randint(1, 60, (4, 5))
    ids[0, 3:] = 0
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids[:, 0] % 3}
    if make is t5:
        batch["labels"] = ids[:, :3].contiguous()
    swep = SWEP(model)
    with torch.autocast("cpu", torch.bfloat16):
        gradaccord.PCGrad(swep).backward({t: swep.loss(partial(model, **batch)) for t in "ab"})
    assert all(p.grad is not None for p in swep.network.parameters())
    assert swep.skipped == 0
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_network_is_the_same_on_every_process_and_the_global_generator_untouched():
    state = torch.get_rng_state()
    first = SWEP(bert()).network.state_dict()
    torch.manual_seed(77)
    second = SWEP(bert()).network.state_dict()
    assert all(torch.equal(first[n], second[n]) for n in first)
    torch.set_rng_state(state)
    SWEP(model := Tagger(), module="words", encoder="mix", hidden_size=5)
    here = torch.get_rng_state()
    SWEP(model, module="words", encoder="mix", hidden_size=5)
    assert torch.equal(torch.get_rng_state(), here)


def test_the_generators_of_accelerators_were_reseeded(monkeypatch):
    """Drawing the network must leave them alone: nothing would put them back."""
    seeds, model = [], Tagger()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    SWEP(model, module="words", encoder="mix", hidden_size=5)
    assert not seeds
    torch.manual_seed(0)
    assert seeds  # this is the way by which torch would have done it


def test_state_is_saved_with_the_network(tmp_path):
    _, swep = build(stop=3)
    swep.after_step()
    torch.save(swep.state_dict(), tmp_path / "state.pt")
    _, fresh = build(stop=3)
    fresh.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert fresh.step == 1


def test_no_hooks_after_an_exception_and_a_bad_pass_is_skipped():
    model, swep = build()
    passes = []

    def forward(kind):
        passes.append(kind)
        loss = model("a", *given())
        if len(passes) == 2:
            if kind == "raise":
                raise RuntimeError("user's own")
            return loss * float("nan")
        return loss

    with pytest.raises(RuntimeError, match="user's own"):
        swep.loss(partial(forward, "raise"))()
    assert not any(m._forward_hooks for m in model.modules())
    passes.clear()
    expected = torch.autograd.grad(model("a", *given()), model.words.weight)[0]
    gradaccord.Sum(swep).backward({"a": swep.loss(partial(forward, "nan"))})
    torch.testing.assert_close(model.words.weight.grad, expected)
    assert swep.to_floats()["swep/skipped"] == 1


def test_bad_input_is_said_in_a_sentence():
    model = Tagger()
    for options, sentence in (
        ({"weight": 1.5}, "`weight` is 1.5: it must be a finite number >= 0 of at most 1"),
        ({"beta": -1.0}, "`beta` is -1.0"),
        ({"prior_variance": 0.0}, "`prior_variance` is 0.0"),
        ({"module": "nowhere"}, "`module` is 'nowhere'"),
        ({}, "encoder of Tagger cannot be found.*encoder='encoder'"),
        ({"encoder": "elsewhere"}, "`encoder` is 'elsewhere'"),
        ({"module": "dropout", "encoder": "mix"}, "is a Dropout: name the word embedding"),
    ):
        with pytest.raises(ValueError, match=sentence):
            SWEP(model, **options)
    swep = SWEP(model, encoder="norm", hidden_size=5)
    with pytest.raises(ValueError, match=r"must be \[batch, length, H\]"):
        swep.loss(partial(model, "a", *given()))()
    with pytest.raises(ValueError, match="called the encoder 0 times and the embedding 0 times"):
        swep.loss(lambda: model.mix.weight.sum().square().requires_grad_(), None)()
    with pytest.raises(TypeError, match="`forward` must be a callable"):
        swep.loss(torch.ones(1))
    with pytest.raises(TypeError, match="must return the loss"):
        swep.loss(lambda: "loss")()
