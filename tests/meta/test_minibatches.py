"""Mini-batches of a task: shuffled passes, and pairs that share no example."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradaccord.meta.episodes.minibatches import minibatches, pairs


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_every_pass_has_each_example_once(examples: int, size: int, count: int) -> None:
    drawn = [batch.tolist() for batch in minibatches(examples, size, count, seeded())]
    assert [len(batch) for batch in drawn] == [min(size, examples)] * count
    flat = [place for batch in drawn for place in batch]
    for start in range(0, len(flat) - examples + 1, examples):
        assert sorted(flat[start : start + examples]) == list(range(examples))


def test_without_a_size_a_batch_is_the_whole_set_and_nothing_is_drawn() -> None:
    generator = seeded()
    before = generator.get_state()
    assert [b.tolist() for b in minibatches(3, None, 2, generator)] == [[0, 1, 2]] * 2
    assert torch.equal(generator.get_state(), before)


@given(st.integers(2, 12), st.data())
@settings(max_examples=40, deadline=None)
def test_the_two_of_a_pair_share_no_example(examples: int, data: st.DataObject) -> None:
    size = data.draw(st.none() | st.integers(1, examples // 2))
    drawn = list(pairs(examples, size, 5, seeded()))
    assert len(drawn) == 5
    for one, two in drawn:
        both = {*one.tolist(), *two.tolist()}
        assert len(one) == len(two) == (size or examples // 2)
        assert len(both) == 2 * len(one)
        assert both <= set(range(examples))


@pytest.mark.parametrize(("examples", "size"), [(5, 3), (1, None), (4, 0)])
def test_a_pair_that_does_not_fit_is_refused(examples: int, size: int | None) -> None:
    with pytest.raises(ValueError, match=f"the support set has {examples} examples, too few"):
        next(pairs(examples, size, 1, seeded()))
