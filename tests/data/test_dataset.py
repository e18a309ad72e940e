"""`data.dataset`: splits by name."""

from __future__ import annotations

import pytest

from gradaccord.data.dataset import Dataset, chosen_splits


def test_a_split_that_does_not_exist_is_named_beside_those_that_do() -> None:
    dataset = Dataset("mine", "masked_lm", {"train": ["a", "b"], "test": ["c"]})
    assert dataset.counts == {"train": 2, "test": 1}
    assert dataset.split("test") == ["c"]
    with pytest.raises(ValueError, match="`mine` has no split 'dev': it has train, test."):
        dataset.split("dev")


def test_one_several_or_all_splits_may_be_chosen() -> None:
    existing = {"train": 1, "dev": 2}
    assert chosen_splits(None, existing, "mine") == ["train", "dev"]
    assert chosen_splits("dev", existing, "mine") == ["dev"]
    assert chosen_splits(["dev", "train"], existing, "mine") == ["dev", "train"]
