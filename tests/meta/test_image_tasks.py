"""Tasks drawn from labelled images and features: shape, shuffling, resume, processes, errors."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.meta.episodes.image_tasks import Episodes, FixedTasks


def features(classes: int = 12, examples: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    """Feature (class, example) of each, in random order."""
    labels = torch.arange(classes).repeat_interleave(examples)
    numbers = torch.arange(examples).repeat(classes)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    return torch.stack([labels, numbers], 1).float()[order], labels[order] * 10


def test_a_task_has_its_classes_once_and_shares_no_example():
    tasks = next(Episodes(features(), ways=5, shots=2, queries=3, tasks=50))
    assert tasks.support.shape == (50, 10, 2)
    assert tasks.query.shape == (50, 15, 2)
    for task in tasks:
        classes = task.support[:, 0].unique()
        assert len(classes) == 5
        for label in range(5):
            own = torch.cat(
                [task.support[task.support_labels == label], task.query[task.query_labels == label]]
            )
            assert len(own) == 5
            assert len(own[:, 0].unique()) == 1  # one class
            assert len(own[:, 1].unique()) == 5  # no example twice


def test_the_map_from_class_to_label_is_shuffled_in_every_task():
    """A map in class order leaks the label: 30 % accuracy before adaptation where chance is 20 %."""
    tasks = next(Episodes(features(), ways=5, shots=1, queries=1, tasks=4000))
    classes = tasks.support[:, :, 0].gather(1, tasks.support_labels.argsort(1))
    mean_label = [
        torch.nonzero(classes == c)[:, 1].float().mean().item() for c in range(12)
    ]  # 2 for each class
    assert max(abs(mean - 2) for mean in mean_label) < 0.15
    counts = torch.bincount(classes.flatten().long())
    assert (counts / counts.sum() * 12 - 1).abs().max() < 0.1  # every class equally often


def test_examples_of_a_task_are_in_random_order():
    tasks = next(Episodes(features(), ways=5, shots=4, queries=4, tasks=2000))
    for labels in (tasks.support_labels, tasks.query_labels):
        assert (labels.float().mean(0) - 2).abs().max() < 0.15  # no place prefers a label


def test_images_are_scaled_to_one_and_features_left_alone():
    images = torch.full((40, 1, 2, 2), 255, dtype=torch.uint8)
    classes = ImageClasses(images, torch.arange(4).repeat_interleave(10), tuple("abcd"))
    tasks = next(Episodes(classes, ways=3, shots=1, queries=2))
    assert tasks.support.dtype == torch.float32
    assert tasks.support.unique().tolist() == [1.0]
    double = next(Episodes(features(), ways=3, shots=1, queries=2, dtype=torch.float64))
    assert double.query.dtype == torch.float64
    assert double.query[..., 0].max() > 1


def test_episodes_go_on_where_they_stopped():
    episodes = Episodes(features(), ways=5, shots=1, queries=2, seed=3)
    for _ in range(4):
        next(episodes)
    state = episodes.state_dict()
    expected = [next(episodes) for _ in range(3)]
    fresh = Episodes(features(), ways=5, shots=1, queries=2, seed=99)
    fresh.load_state_dict(state)
    assert fresh.step == 4
    for tasks in expected:
        again = next(fresh)
        assert torch.equal(again.support, tasks.support)
        assert torch.equal(again.query_labels, tasks.query_labels)
    other = Episodes(features(), ways=4, shots=1, queries=2)
    with pytest.raises(ValueError, match="would not be the same"):
        other.load_state_dict(state)


def test_two_processes_share_the_batch_of_one():
    whole = next(Episodes(features(), ways=5, shots=1, queries=2, tasks=6, seed=1))
    halves = [
        next(Episodes(features(), ways=5, shots=1, queries=2, tasks=6, seed=1, rank=r, world_size=2))
        for r in range(2)
    ]
    assert torch.equal(torch.cat([half.support for half in halves]), whole.support)
    assert torch.equal(torch.cat([half.query_labels for half in halves]), whole.query_labels)


def test_fixed_tasks_are_the_same_every_time_and_whatever_the_batch():
    def joined(tasks: FixedTasks) -> torch.Tensor:
        return torch.cat([batch.query for batch in tasks])

    fixed = FixedTasks(features(), ways=5, shots=1, queries=2, count=50, batch=20, seed=5)
    assert len(fixed) == 50
    assert [len(batch) for batch in fixed] == [20, 20, 10]
    assert torch.equal(joined(fixed), joined(fixed))
    longer = FixedTasks(features(), ways=5, shots=1, queries=2, count=60, batch=7, seed=5)
    assert torch.equal(joined(longer)[:50], joined(fixed))
    other = FixedTasks(features(), ways=5, shots=1, queries=2, count=50, seed=6)
    assert not torch.equal(joined(other), joined(fixed))
    shares = [
        FixedTasks(
            features(), ways=5, shots=1, queries=2, count=50, seed=5, rank=r, world_size=3, batch=8
        )
        for r in range(3)
    ]
    assert torch.equal(torch.cat([joined(share) for share in shares]), joined(fixed))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ways": 13}, "`ways` is 13, but there are only 12 classes"),
        ({"shots": 5, "queries": 5}, "has 9 examples, fewer than 5 shots [+] 5 queries = 10"),
        ({"shots": 0}, "`shots` is 0: it must be a whole number >= 1"),
        ({"ways": 1}, "`ways` is 1: it must be a whole number >= 2"),
        ({"tasks": 0}, "`tasks` is 0"),
        ({"tasks": 3, "world_size": 2}, "`tasks` is 3, which 2 processes cannot share evenly"),
        ({"rank": 2, "world_size": 2}, "`rank` is 2"),
    ],
)
def test_impossible_tasks_say_why(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Episodes(features(), **({"ways": 5, "shots": 1, "queries": 2} | options))


def test_a_class_that_is_too_small_is_named():
    labels = torch.tensor([0] * 5 + [1] * 2 + [2] * 5)
    classes = ImageClasses(torch.zeros(12, 1, 2, 2, dtype=torch.uint8), labels, ("a", "wren", "c"))
    with pytest.raises(ValueError, match=r"Class 1 \('wren'\) has 2 examples, fewer than 1 shots"):
        Episodes(classes, ways=2, shots=1, queries=2)
