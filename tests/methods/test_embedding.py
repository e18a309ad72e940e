"""Where noise is added: the embedding found and hooked, and nothing left behind."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from smart_problems import text, tiny_bert, wrapped
from torch import nn
from torch.nn import functional as F
from toy import batch, trunk

import gradaccord
from gradaccord.methods.regularize.embedding import Place
from gradaccord.methods.regularize.smart import SMART

pytestmark = pytest.mark.usefixtures("one_thread")


def hooks_of(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


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


def test_calls_are_counted_and_those_outside_are_not_asked():
    words = nn.Embedding(5, 3)
    encoder = nn.Sequential(words, nn.Linear(3, 3))
    tokens, asked = torch.arange(4), []

    def change(call, x, real):
        asked.append(call)
        return x + 1

    with Place(words, within=encoder).changed(change):
        for _ in range(3):
            encoder(tokens)
            assert torch.equal(words(tokens), words.weight[:4])  # not within the encoder
    assert asked == [0, 1, 2]
    with Place(words).changed(change):
        assert torch.equal(words(tokens), words.weight[:4] + 1)
    assert asked == [0, 1, 2, 0]
