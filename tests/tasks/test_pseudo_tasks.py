"""Pseudo-tasks: known groups are found again, the same every time, and kept on disk."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
import torch
from kinds_support import SHARED, minilm, tokens
from small_use import need_package, small_use

from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Question, Tagged, Text
from gradaccord.tasks.pseudo_tasks import PseudoTasks, cluster, mean_states, pseudo_tasks

TOPICS = {
    "food": ("soup", "bread", "cheese", "pasta", "salad", "curry", "cake", "rice"),
    "sport": ("football", "tennis", "hockey", "rugby", "cricket", "boxing", "golf", "rowing"),
    "money": ("stocks", "bonds", "loans", "taxes", "wages", "rents", "prices", "debts"),
    "space": ("Mars", "Venus", "comets", "galaxies", "stars", "rockets", "moons", "Jupiter"),
}
SENTENCES = {
    "food": ("We cooked {} for dinner.", "The {} tasted salty.", "She baked {} in the oven."),
    "sport": ("The {} team won the match.", "He trains for {} every day.", "A {} coach was fired."),
    "money": ("The bank raised {} again.", "Investors fear rising {}.", "The minister spoke of {}."),
    "space": ("Astronomers observed {}.", "The probe flew past {}.", "A telescope photographed {}."),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path))


def topics(extra: int = 0) -> Dataset:
    """24 sentences of each topic, mixed; `extra` more of the first."""
    rows = [
        Text(pattern.format(word), None, 0, topic)
        for topic, words in TOPICS.items()
        for word, pattern in itertools.product(words, SENTENCES[topic])
    ]
    rows += [Text(f"{row.first} Then we ate {n}.", None, 0, "food") for n, row in
             zip(range(extra), itertools.cycle(rows[:24]))]  # fmt: skip
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1)).tolist()
    return Dataset("topics", "classification", {"train": [rows[i] for i in order], "dev": rows[:2]})


def clustered(dataset: Dataset, **options: int) -> PseudoTasks:
    return pseudo_tasks(dataset, minilm(), tokens(), **{"dimensions": 6, **options})


def test_known_groups_of_texts_are_found_again() -> None:
    dataset = topics()
    found = clustered(dataset)
    assert found.sizes == {f"topics.{n}": 24 for n in (1, 2, 3, 4)}
    for part in found.datasets.values():
        assert len({example.id for example in part.split("train")}) == 1  # one topic
        assert list(part.splits) == ["train"]
        assert part.kind == dataset.kind
    everything = [e for part in found.datasets.values() for e in part.split("train")]
    assert Counter(everything) == Counter(dataset.split("train"))
    assert found.weights == pytest.approx(dict.fromkeys(found.datasets, 0.25))
    assert found.converged
    assert 0 < found.explained < 1
    assert "topics.1 24 (p = 0.25)" in str(found)


def test_uneven_clusters_are_drawn_by_a_power_of_their_size() -> None:
    found = clustered(topics(extra=60))
    sizes = list(found.sizes.values())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2 * sizes[-1]
    total = sum(size**0.2 for size in sizes)
    assert list(found.weights.values()) == pytest.approx([size**0.2 / total for size in sizes])


def test_the_same_seed_gives_the_same_clusters_and_the_second_call_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, trunk = topics(), minilm()
    calls = []
    monkeypatch.setattr(trunk, "forward", _counting(trunk.forward, calls))
    first = pseudo_tasks(dataset, trunk, tokens(), dimensions=6)
    made = len(calls)
    assert made
    again = pseudo_tasks(dataset, trunk, tokens(), dimensions=6)
    assert len(calls) == made  # from the cache
    assert torch.equal(first.clusters, again.clusters)
    assert again.explained == first.explained
    for file in tmp_path.iterdir():
        file.unlink()
    anew = pseudo_tasks(dataset, trunk, tokens(), dimensions=6)
    assert len(calls) == 2 * made
    assert torch.equal(first.clusters, anew.clusters)
    with torch.no_grad():
        next(trunk.parameters()).add_(1e-3)
    pseudo_tasks(dataset, trunk, tokens(), dimensions=6)
    assert len(calls) == 3 * made  # another encoder: nothing kept fits


def _counting(forward, calls):  # type: ignore[no-untyped-def]
    def counted(batch):  # type: ignore[no-untyped-def]
        calls.append(batch)
        return forward(batch)

    return counted


def test_states_are_means_over_tokens_whatever_the_pooling_the_batch_and_the_mode() -> None:
    texts = [("A cat.", "It sleeps on the sofa all day."), ("Rain.", "Dry."), ("x " * 40, "y")]
    trunk = minilm("cls").train()
    found = mean_states(texts, trunk, tokens(), 32, batch_size=3)
    assert trunk.training
    torch.testing.assert_close(
        found, mean_states(texts, trunk, tokens(), 32, batch_size=1), atol=1e-5, rtol=0
    )
    encoding = tokens().encode(["A cat."], ["It sleeps on the sofa all day."], max_length=32)[0]
    ids = torch.tensor([encoding.ids])
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids),
             "token_type_ids": torch.tensor([encoding.type_ids])}  # fmt: skip
    with torch.no_grad():
        expected = trunk.eval()(batch).tokens[0].mean(0)
    torch.testing.assert_close(found[0], expected, atol=1e-5, rtol=0)


def test_gaussians_of_different_shapes_are_told_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(300, 8, generator=generator) * torch.tensor([4.0] + 7 * [0.1])
    tall = torch.randn(200, 8, generator=generator) * torch.tensor([0.1, 4.0] + 6 * [0.1]) + 1.0
    found, explained, converged = cluster(
        torch.cat([wide, tall]), clusters=2, dimensions=4, restarts=3, seed=0
    )
    assert converged
    assert explained > 0.9
    assert (found[:300] == 0).float().mean() > 0.97  # the larger comes first
    assert (found[300:] == 1).float().mean() > 0.97


def test_too_few_examples_are_an_error_with_a_remedy_that_works() -> None:
    dataset = topics()
    with pytest.raises(ValueError, match=r"has 96 examples, and 4 clusters in 50 dimensions need 204"):
        clustered(dataset, dimensions=50)
    with pytest.raises(ValueError, match="set `dimensions` to at most 23"):
        clustered(dataset, dimensions=24)
    clustered(dataset, dimensions=23)
    tiny = Dataset("tiny", "classification", {"train": dataset.split("train")[:3]})
    with pytest.raises(ValueError, match="give more examples, or fewer `clusters`"):
        clustered(tiny)
    with pytest.raises(ValueError, match="`clusters` is 0"):
        clustered(dataset, clusters=0)
    with pytest.raises(ValueError, match="has no split 'test'"):
        pseudo_tasks(dataset, minilm(), tokens(), split="test")


def test_any_kind_of_text_can_be_clustered_and_images_cannot() -> None:
    base = topics().split("train")
    for example in (
        [Question("What?", row.first) for row in base],
        [Tagged(tuple(row.first.split())) for row in base],
    ):
        assert sum(clustered(Dataset("x", "any", {"train": example})).sizes.values()) == 96
    with pytest.raises(ValueError, match="only texts are clustered"):
        clustered(Dataset("pictures", "image", {"train": [object()] * 96}))


def test_real_pairs_in_50_dimensions() -> None:
    if not SHARED.exists():
        pytest.skip("the shared data is not here")
    from gradaccord import data

    whole = data.load("sts", folder=SHARED)
    dataset = Dataset("sts", whole.kind, {"train": whole.split("train")[:300]})
    found = pseudo_tasks(dataset, minilm(), tokens(), restarts=2)
    assert sum(found.sizes.values()) == 300
    assert len(found.sizes) == 4


def test_an_encoder_that_reads_no_pairs_clusters_them_as_one_text() -> None:
    need_package()
    trunk, pieces = small_use()
    pairs = [("The cat sat.", "It slept."), ("El niño está aquí.", "Yes."), ("Rain.", "")]
    joined = [(" ".join(filter(None, pair)), None) for pair in pairs]
    found = mean_states(pairs, trunk, pieces, 32)
    torch.testing.assert_close(found, mean_states(joined, trunk, pieces, 32), atol=0, rtol=0)
