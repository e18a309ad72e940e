"""Heads: what they read of a trunk's states, and the layers that they are made of."""

from __future__ import annotations

import pytest
import torch
from smart_problems import tiny_bert
from torch import nn

from gradaccord.models.heads import MaskedLMHead, SequenceHead, TokenHead, layers
from gradaccord.models.trunks.trunk import States, Trunk


class Given(Trunk):
    """States that are the batch's own."""

    hidden = 4

    def forward(self, batch):
        return States(batch["states"], batch["mask"])


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(6, 3, 4, generator=generator, dtype=torch.float64)
    return {"states": states, "mask": torch.ones(6, 3)}


@pytest.mark.parametrize("hidden", [(), (5,), (5, 2)])
def test_layers_are_dropout_and_linear_with_gelu_between(hidden):
    made = layers(4, 3, hidden, dropout=0.3)
    kinds = [nn.Dropout, nn.Linear, nn.GELU] * len(hidden) + [nn.Dropout, nn.Linear]
    assert [type(part) for part in made] == kinds
    sizes = [(p.in_features, p.out_features) for p in made if isinstance(p, nn.Linear)]
    assert sizes == list(zip((4, *hidden), (*hidden, 3), strict=True))
    assert {part.p for part in made if isinstance(part, nn.Dropout)} == {0.3}


def test_a_sentence_is_read_by_its_pooled_vector(batch):
    head = SequenceHead(4, 2).double().eval()
    expected = head.layers(batch["states"][:, 0])
    assert torch.equal(head(Given(), batch), expected)


def test_a_pair_is_read_by_both_vectors_and_their_distance(batch):
    head = SequenceHead(4, 2, pair=True).double().eval()
    u, v = batch["states"][0::2, 0], batch["states"][1::2, 0]
    expected = head.layers(torch.cat([u, v, (u - v).abs()], 1))
    found = head(Given(), batch)
    assert found.shape == (3, 2)
    assert torch.equal(found, expected)


def test_tokens_are_read_one_by_one(batch):
    head = TokenHead(4, 5).double().eval()
    found = head(Given(), batch)
    assert found.shape == (6, 3, 5)
    torch.testing.assert_close(found[2, 1], head.layers(batch["states"][2, 1]))


def test_masked_tokens_are_predicted_by_the_model_s_own_head_with_a_matrix_of_its_own():
    transformers = pytest.importorskip("transformers")
    whole = transformers.BertForMaskedLM(tiny_bert().config).double().eval()
    words = whole.get_input_embeddings().weight
    states = torch.randn(7, 16, dtype=torch.float64)
    with torch.no_grad():
        expected = whole.cls(states)
        head = MaskedLMHead(whole)
        torch.testing.assert_close(head(states), expected)
    head(states).sum().backward()
    assert head.model.get_output_embeddings().weight.grad is not None
    assert words.grad is None
