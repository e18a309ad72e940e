"""`text.masking`: which tokens are hidden, and what stands in their place."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.text.masking import Mask
from gradaccord.data.text.masking import Tokens as MaskTokens


def masked(ids, begins=None, share=0.15):
    known = MaskTokens(mask=4, size=1000, special=(0, 1, 2, 3, 4))
    return Mask(known, share, torch.Generator().manual_seed(0))(ids, begins)


def test_of_the_chosen_four_fifths_are_masked_a_tenth_random_and_a_tenth_kept():
    ids = torch.randint(5, 1000, (400, 256), generator=torch.Generator().manual_seed(1))
    seen, chosen = masked(ids)
    count = int(chosen.sum())
    assert count / ids.numel() == pytest.approx(0.15, abs=0.005)
    assert torch.equal(seen[~chosen], ids[~chosen])
    hidden, kept = seen[chosen] == 4, seen[chosen] == ids[chosen]
    assert float(hidden.float().mean()) == pytest.approx(0.8, abs=0.015)
    assert float(kept.float().mean()) == pytest.approx(0.1, abs=0.01)
    assert int(seen[chosen][~hidden].min()) >= 5


def test_whole_words_are_chosen_whole_and_as_often():
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, 1000, (400, 256), generator=generator)
    begins = torch.rand(ids.shape, generator=generator) < 0.4
    begins[:, 0] = True
    ids[:, ::16], begins[:, ::16] = 3, True  # separators between texts
    begins[:, 1::16] = True
    seen, chosen = masked(ids, begins)
    words = begins.flatten().cumsum(0) - 1
    count = int(words[-1]) + 1
    sizes = torch.zeros(count).index_add_(0, words, torch.ones(len(words)))
    hits = torch.zeros(count).index_add_(0, words, chosen.flatten().float())
    assert {*torch.unique(hits / sizes).tolist()} == {0.0, 1.0}
    assert not chosen[ids == 3].any()
    assert float(chosen[ids != 3].float().mean()) == pytest.approx(0.15, abs=0.007)
    assert torch.equal(seen[~chosen], ids[~chosen])
    # Every token a word of its own: the same masks as without words.
    alone = masked(ids, torch.ones_like(begins))
    assert all(torch.equal(one, other) for one, other in zip(alone, masked(ids), strict=True))


def test_everything_that_is_not_special_is_hidden_at_a_share_of_one():
    ids = torch.tensor([[3, 7, 0, 8, 4]])
    _, chosen = masked(ids, share=1.0)
    assert chosen.tolist() == [[False, True, False, True, False]]


def test_a_tokenizer_without_a_mask_token_is_refused():
    class Plain:
        mask_token_id = None

    with pytest.raises(ValueError, match=r"`tokenizer` \(Plain\) has no mask token"):
        MaskTokens.of(Plain())
