"""Samplers: who is drawn and how often, epochs, exact resume at any step, clear refusals."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradaccord.data.samplers import (
    ProportionalTasks,
    RoundRobinTasks,
    SequentialTasks,
    TaskBatches,
    UniformTasks,
    WeightedTasks,
)

SIZES = {"a": 5, "b": 2, "c": 3}
ALL: dict[str, Any] = {
    "sequential": lambda seed=0: SequentialTasks(SIZES),
    "shuffled": lambda seed=0: SequentialTasks(SIZES, shuffle=True, seed=seed),
    "round robin": lambda seed=0: RoundRobinTasks(SIZES),
    "weighted": lambda seed=0: WeightedTasks({"a": 0.2, "b": 0.5, "c": 0.3}, seed=seed),
    "proportional": lambda seed=0: ProportionalTasks(SIZES, q=0.5, n=2, seed=seed),
    "uniform": lambda seed=0: UniformTasks(SIZES, n=2, seed=seed),
}


def test_sequential_gives_all_batches_of_each_task_in_turn() -> None:
    sampler = SequentialTasks(SIZES)
    assert len(sampler) == 10
    for epoch in range(2):
        assert sampler.epoch == epoch
        drawn = list(islice(sampler, len(sampler)))
        assert drawn == [("a",)] * 5 + [("b",)] * 2 + [("c",)] * 3


def test_shuffled_sequential_keeps_each_task_together() -> None:
    sampler = SequentialTasks(SIZES, shuffle=True, seed=1)
    orders = set()
    for _ in range(30):
        drawn = [task for (task,) in islice(sampler, len(sampler))]
        assert Counter(drawn) == SIZES
        order = tuple(dict.fromkeys(drawn))
        assert drawn == [task for task in order for _ in range(SIZES[task])]
        orders.add(order)
    assert len(orders) == 6


def test_round_robin_gives_one_of_each_for_as_long_as_the_smallest() -> None:
    sampler = RoundRobinTasks(SIZES)
    assert len(sampler) == 2
    assert list(islice(sampler, 3)) == [("a", "b", "c")] * 3
    assert sampler.epoch == 1


@pytest.mark.parametrize("q", [0.0, 0.2, 1.0])
def test_proportional_draws_by_the_power_of_the_size(q: float) -> None:
    sizes = {"a": 10_000, "b": 300, "c": 40}
    sampler = ProportionalTasks(sizes, q=q)
    total = sum(size**q for size in sizes.values())
    counts = Counter(task for (task,) in islice(sampler, 4000))
    for task, size in sizes.items():
        assert sampler.probabilities[task] == pytest.approx(size**q / total)
        assert counts[task] / 4000 == pytest.approx(size**q / total, abs=0.03)


def test_fixed_weights_need_not_sum_to_one() -> None:
    sampler = WeightedTasks({"a": 30, "b": 10})
    assert sampler.probabilities == {"a": 0.75, "b": 0.25}
    counts = Counter(task for (task,) in islice(sampler, 4000))
    assert counts["a"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_uniform_draws_without_replacement() -> None:
    sampler = UniformTasks(list("abcde"), n=3)
    counts: Counter[str] = Counter()
    for tasks in islice(sampler, 3000):
        assert len(set(tasks)) == 3
        counts.update(tasks)
    for task in "abcde":
        assert counts[task] / 3000 == pytest.approx(3 / 5, abs=0.04)


@pytest.mark.parametrize("n", [3, 8])
def test_all_tasks_come_where_no_more_than_n_exist(n: int) -> None:
    assert next(ProportionalTasks(SIZES, n=n)) == ("a", "b", "c")


@pytest.mark.parametrize("kind", ALL)
@given(stop=st.integers(0, 25))
def test_sampler_resumes_exactly(kind: str, stop: int) -> None:
    sampler = ALL[kind](seed=3)
    list(islice(sampler, stop))
    state = sampler.state_dict()
    expected = list(islice(sampler, 25))
    again = ALL[kind](seed=4)
    again.load_state_dict(state)
    assert list(islice(again, 25)) == expected


@pytest.mark.parametrize("kind", ALL)
def test_the_global_generator_is_left_alone_and_does_not_matter(kind: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = list(islice(ALL[kind](), 20))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert list(islice(ALL[kind](), 20)) == first


def test_batches_cover_the_data_once_a_pass_and_go_on() -> None:
    batches = TaskBatches(range(10), 4, seed=1)
    assert len(batches) == 3
    passes = [[next(batches) for _ in range(3)] for _ in range(3)]
    for drawn in passes:
        assert [len(batch) for batch in drawn] == [4, 4, 2]
        assert sorted(i for batch in drawn for i in batch) == list(range(10))
    assert passes[0] != passes[1]
    assert batches.epoch == 2


def test_batches_in_order_with_the_rest_dropped_and_collated() -> None:
    batches = TaskBatches(range(10), 4, shuffle=False, drop_last=True, collate=sum)
    assert len(batches) == 2
    assert list(islice(batches, 3)) == [6, 22, 6]


@given(stop=st.integers(0, 12), shuffle=st.booleans())
def test_batches_resume_exactly(stop: int, shuffle: bool) -> None:
    batches = TaskBatches(range(10), 4, shuffle=shuffle, seed=1)
    list(islice(batches, stop))
    state = batches.state_dict()
    expected = list(islice(batches, 12))
    again = TaskBatches(range(10), 4, shuffle=shuffle, seed=2)
    again.load_state_dict(state)
    assert list(islice(again, 12)) == expected
    assert again.epoch == batches.epoch


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize(
    ("examples", "size"), [(10, 4), (11, 8), (250, 32), (250, 16), (1000, 12), (5000, 32)]
)
def test_the_shortest_examples_are_drawn_as_often_as_the_others(
    examples: int, size: int, drop_last: bool
) -> None:
    """What does not fill a batch is left out, or makes the short last batch: everyone by turns."""
    passes, rest = 200, examples % size
    lengths = torch.arange(examples) // 2
    batches = TaskBatches(range(examples), size, drop_last=drop_last, lengths=lengths, seed=1)
    drawn, short = torch.zeros(examples), torch.zeros(examples)
    for _ in range(passes):
        whole = [next(batches) for _ in range(len(batches))]
        drawn[[row for batch in whole for row in batch]] += 1
        short[[row for batch in whole if len(batch) < size for row in batch]] += 1
    if not drop_last:
        assert drawn.tolist() == [passes] * examples
    odd = passes - drawn if drop_last else short
    # A fair draw is binomial; its variance over the examples is known, with this standard error.
    chance = rest / examples
    expected = passes * chance * (1 - chance)
    spread = float((odd - passes * chance).square().mean()) / expected
    assert spread <= 1 + 5 * ((2 + 1 / expected) / examples) ** 0.5
    assert abs(float(torch.corrcoef(torch.stack([odd, lengths]))[0, 1])) <= 4 / examples**0.5


@pytest.mark.parametrize(("examples", "size"), [(250, 20), (250, 32), (1000, 12), (5000, 32)])
def test_examples_of_grouped_batches_meet_almost_as_many_others_as_of_plain_ones(
    examples: int, size: int
) -> None:
    lengths = torch.arange(examples)

    def mates(**given: Any) -> torch.Tensor:
        """Distinct examples that each shared a batch with in twenty passes."""
        batches = TaskBatches(range(examples), size, drop_last=True, seed=1, **given)
        met = torch.zeros(examples, examples, dtype=torch.bool)
        for _ in range(20 * len(batches)):
            rows = torch.tensor(next(batches))
            met[rows[:, None], rows] = True
        return met.sum(1).double()

    grouped, plain = mates(lengths=lengths), mates()
    assert grouped.mean() >= 0.8 * plain.mean()
    assert grouped.min() >= 0.75 * plain.min()  # the shortest and the longest ones


@pytest.mark.parametrize(("passes", "sorts"), [(49, False), (50, True)])
def test_a_pass_of_fewer_than_fifty_batches_is_not_sorted(passes: int, sorts: bool) -> None:
    examples = 4 * passes
    grouped = TaskBatches(range(examples), 4, lengths=torch.arange(examples))
    plain = TaskBatches(range(examples), 4)
    ours, theirs = ([next(batches) for _ in range(passes)] for batches in (grouped, plain))
    assert (ours != theirs) == sorts
    if sorts:  # two batches by two: each has the longer or the shorter half of eight
        assert sum(max(b) - min(b) for b in ours) < 0.8 * sum(max(b) - min(b) for b in theirs)


def test_a_failing_collate_loses_no_batch() -> None:
    calls = []

    def collate(items: list[int]) -> list[int]:
        calls.append(items)
        if len(calls) == 1:
            raise OSError
        return items

    batches = TaskBatches(range(4), 2, shuffle=False, collate=collate)
    with pytest.raises(OSError):
        next(batches)
    assert next(batches) == [0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RoundRobinTasks({}), "`tasks` is empty: give the sampler at least one task"),
        (lambda: ProportionalTasks({}), "`tasks` is empty"),
        (lambda: WeightedTasks({}), "`tasks` is empty"),
        (lambda: UniformTasks(["a", "a"]), "Task 'a' is given twice: names must differ"),
        (lambda: WeightedTasks({"a": 1.0, "b": 0.0}), "`weights` gives task 'b' 0.0: .*; leave out"),
        (lambda: WeightedTasks({"a": float("nan")}), "`weights` gives task 'a' nan"),
        (lambda: ProportionalTasks({"a": -3}), "`sizes` gives task 'a' -3: .* >= 1; leave out a task"),
        (lambda: ProportionalTasks({"a": 3}, q=float("inf")), "`q` is inf: it must be a finite number"),
        (lambda: SequentialTasks({"a": 0}), "`batches` gives task 'a' 0"),
        (lambda: SequentialTasks({"a": 1.5}), "`batches` gives task 'a' 1.5"),
        (
            lambda: UniformTasks(SIZES, n=0),
            "`n` is 0: it must be a whole number >= 1, the tasks drawn per step",
        ),
        (lambda: TaskBatches(range(5), 0), "`batch_size` is 0: it must be a whole number >= 1"),
        (lambda: TaskBatches([], 4), "`data` has 0 examples, which do not fill one batch of 4"),
        (lambda: TaskBatches(range(3), 4, drop_last=True), "`data` has 3 examples"),
    ],
)
def test_bad_input_is_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_state_that_does_not_fit_is_refused() -> None:
    state = SequentialTasks(SIZES).state_dict()
    with pytest.raises(ValueError, match="saved by 'SequentialTasks', and this is 'RoundRobinTasks'"):
        RoundRobinTasks(SIZES).load_state_dict(state)
    with pytest.raises(ValueError, match="saved with `batches`"):
        SequentialTasks(SIZES | {"c": 4}).load_state_dict(state)
    with pytest.raises(ValueError, match="saved with the tasks a, b, c, and this sampler has a, b"):
        UniformTasks(["a", "b"]).load_state_dict(UniformTasks(SIZES).state_dict())
    with pytest.raises(ValueError, match="saved with examples=10, and here it is 11"):
        TaskBatches(range(11), 4).load_state_dict(TaskBatches(range(10), 4).state_dict())


def test_an_order_takes_four_bytes_a_row_and_is_that_of_eight() -> None:
    batches = TaskBatches(range(1000), 10, seed=3)
    wide = torch.randperm(1000, generator=torch.Generator().manual_seed(3))
    assert batches._order.dtype == torch.int32
    assert batches._order.tolist() == wide.tolist()
