"""`data.splits`: cuts that keep contexts whole."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Question, Tagged, Text
from gradaccord.data.images.labelled import Images
from gradaccord.data.splits import cut, drawn

FOR_EVER = ["context 1", "context 7", "context 30", "context 38"]


def questions(contexts: int, each: int = 3) -> list[Question]:
    return [
        Question("?", f"context {c}", ("context",), (0,), id=f"{c}-{q}")
        for c in range(contexts)
        for q in range(each)
    ]


def test_a_cut_keeps_contexts_whole_and_does_not_depend_on_the_run():
    dataset = Dataset("qa", "question_answering", {"dev": questions(400)})
    parts = cut(dataset, {"train": 0.5, "dev": 0.3, "test": 0.2}).splits
    contexts = [{e.context for e in part} for part in parts.values()]
    assert not contexts[0] & contexts[1]
    assert not contexts[1] & contexts[2]
    assert sum(map(len, parts.values())) == 1200
    for part, share in zip(parts.values(), (0.5, 0.3, 0.2), strict=True):
        assert len(part) == pytest.approx(1200 * share, rel=0.25)
    assert cut(dataset, 0.2).splits == cut(dataset, 0.2).splits
    assert cut(dataset, 0.2).splits != cut(dataset, 0.2, seed=1).splits
    chosen = dict.fromkeys(e.context for e in cut(dataset, 0.2).splits["dev"])
    assert [*chosen][:4] == FOR_EVER  # a figure in a paper depends on it


def test_a_cut_that_cannot_be():
    dataset = Dataset("qa", "question_answering", {"train": questions(50), "dev": questions(5)})
    for shares, message in (
        (0.1, "into 'dev', which `qa` has already"),
        ({"train": 0.9, "test": 0.2}, "sum to 1.1"),
        ({"train": 0.9, "held": 0.1}, "the split 'held'"),
        ({"train": 1.0, "test": 0.0}, "`cut` is 0 for 'test'"),
        ({"train": 1.0, "test": -0.1}, "`cut` is -0.1 for 'test'"),
    ):
        with pytest.raises(ValueError, match=message):
            cut(dataset, shares)
    with pytest.raises(ValueError, match="leaves no example for 'dev' out of 1"):
        cut(Dataset("one", "tagging", {"train": [Tagged(("a",), ("O",))]}), 0.0001)
    with pytest.raises(ValueError, match="has no split to cut"):
        cut(Dataset("none", "tagging", {}), 0.5)


def test_a_split_without_labels_gives_way_to_a_cut():
    rows = [Text(f"text {n}", None, n % 2, str(n)) for n in range(100)]
    hidden = [Text("hidden", None, None, "h")]
    dataset = cut(Dataset("t", "classification", {"train": rows, "dev": hidden, "test": hidden}), 0.3)
    assert all(e.label is not None for e in dataset.splits["dev"])
    assert dataset.splits["test"] == hidden


def test_fewer_examples_are_drawn_from_the_whole_of_a_sorted_split():
    sentences = [Text(str(row), label=row // 100) for row in range(1000)]
    few, more = drawn(sentences, 50), drawn(sentences, 200)
    assert [len(few), len(more)] == [50, 200]
    assert {one.label for one in few} == set(range(10))
    assert few == sorted(few, key=lambda one: int(one.first)) == list(drawn(sentences, 50))
    assert set(few) < set(more)
    assert drawn(sentences, 1000) is sentences
    pictures = Images(torch.zeros(90, 1, 2, 2, dtype=torch.uint8), torch.arange(90) // 30)
    assert set(drawn(pictures, 30).labels.tolist()) == {0, 1, 2}
