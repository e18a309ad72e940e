"""The model of pretraining: every architecture's own loss, from the chosen tokens alone."""

import pytest
import torch
from pretrain_toy import MODEL, configured

from gradaccord.pretrain.model import (
    BLOCK,
    MaskedLoss,
    _TokenLosses,
    make_model,
    source_of,
    use_fast_attention,
)
from gradaccord.pretrain.texts import load_texts
from gradaccord.pretrain.tokenizer import trained_tokenizer

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
}  # fmt: skip
OPTIONS = {
    "bert": SMALL,
    "roberta": SMALL,
    "xlm-roberta": SMALL,
    "electra": {**SMALL, "embedding_size": 16},
    "albert": {**SMALL, "embedding_size": 16},
    "mpnet": SMALL,
    "deberta-v2": SMALL,
    "distilbert": {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64},
    "modernbert": SMALL,
}


@pytest.fixture(scope="module")
def tokens(texts):
    return trained_tokenizer(configured(texts), load_texts(configured(texts), None))


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # of transformers' DeBERTa
@pytest.mark.parametrize("name", OPTIONS)
def test_the_loss_is_the_architectures_own(name, texts, tokens):
    config = configured(texts, model={"name": name, **OPTIONS[name]})
    model, weights = make_model(config, None, tokens)
    model.eval()
    assert weights == "fresh weights"
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, tokens.size, (3, 20), generator=generator)
    ids[1, 12:] = tokens.pad
    chosen = (torch.rand(ids.shape, generator=generator) < 0.3) & (ids != tokens.pad)
    seen = torch.where(chosen, tokens.tokenizer.mask_token_id, ids)
    labels = torch.where(chosen, ids, -100)
    with torch.no_grad():
        whole = model(input_ids=seen, attention_mask=(ids != tokens.pad).long(), labels=labels).loss
        losses = MaskedLoss(model)(ids, seen, chosen, tokens.pad)
        again = model(input_ids=seen, attention_mask=(ids != tokens.pad).long(), labels=labels).loss
    assert losses.shape == (int(chosen.sum()),)
    torch.testing.assert_close(losses.mean(), whole)
    assert torch.equal(whole, again)  # used by itself the model is as before


def test_losses_of_tokens_and_their_gradients_are_those_of_cross_entropy():
    generator = torch.Generator().manual_seed(0)
    count, pieces = 2 * BLOCK + 5, 50
    logits = 4 * torch.randn(count, pieces, generator=generator, dtype=torch.float64)
    targets = torch.randint(pieces, (count,), generator=generator)
    weights = torch.rand(count, generator=generator, dtype=torch.float64)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    losses = _TokenLosses.apply(ours, targets)
    expected = torch.nn.functional.cross_entropy(theirs, targets, reduction="none")
    torch.testing.assert_close(losses, expected, rtol=0, atol=1e-12)
    (losses * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)


def test_losses_of_half_precision_logits_are_computed_in_single():
    logits = torch.randn(7, 300, generator=torch.Generator().manual_seed(0)).bfloat16()
    targets = torch.arange(7)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    losses = _TokenLosses.apply(ours, targets)
    expected = torch.nn.functional.cross_entropy(theirs.float(), targets, reduction="none")
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=1e-6)
    losses.sum().backward()
    expected.sum().backward()
    assert ours.grad.dtype == torch.bfloat16
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("name", OPTIONS)
def test_fast_attention_is_for_short_bf16_on_a_cpu_and_gives_the_same_losses(name, texts, tokens):
    cpu = torch.device("cpu")
    config = configured(texts, model={"name": name, **OPTIONS[name]})
    model, _ = make_model(config, None, tokens)
    model.eval()
    before = model.config._attn_implementation
    for device, precision, length in (
        (cpu, "no", 64),
        (torch.device("meta"), "bf16", 64),
        (cpu, "bf16", 4096),
    ):
        use_fast_attention(model, device, precision, length)
        assert model.config._attn_implementation == before
    ids = torch.randint(5, tokens.size, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(input_ids=ids).logits
        use_fast_attention(model, cpu, "bf16", 64)
        assert model.config._attn_implementation == "eager"
        torch.testing.assert_close(model(input_ids=ids).logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "brt"}, "did you mean 'bert'"),
        ({"model": {**MODEL, "hiden_size": 32}}, "did you mean 'hidden_size'"),
        ({"model": {**MODEL, "num_attention_heads": 5}}, "cannot be built"),
        ({"length": 100}, "the model has 64 positions"),
    ],
)
def test_mistakes_get_a_sentence(texts, tokens, changes, said):
    config = configured(texts, **changes)
    with pytest.raises(ValueError, match=said):
        make_model(config, source_of(config), tokens)


def test_positions_follow_the_length_where_none_are_given(texts, tokens):
    config = configured(texts, model={"name": "roberta", **SMALL}, length=700)
    model, _ = make_model(config, None, tokens)
    ids = torch.full((1, 700), 7)
    assert model(input_ids=ids).logits.shape == (1, 700, tokens.size)


def test_a_model_that_is_trained_further_keeps_its_tokenizer_and_sizes(learned, texts):
    folder = str(learned[0] / "model")
    for changes, said in (
        ({"model": folder}, "has its own tokenizer: leave it out"),
        (
            {"model": {"name": folder, "hidden_size": 3}, "tokenizer": None},
            "`model.hidden_size` is for",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            source_of(configured(texts, **changes))
    assert source_of(configured(texts, model=folder, tokenizer=None)) == folder
