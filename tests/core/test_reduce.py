"""What processes tell one another: means over all their items, and who has failed.

Several processes are in tests/distributed.
"""

from __future__ import annotations

import random

import pytest
import torch

from gradaccord.core.bank import Bank
from gradaccord.core.failures import ProcessFailedError
from gradaccord.core.reduce import (
    Summary,
    failure_of,
    first_one,
    gathered,
    join_losses,
    join_shards,
    means_of,
    raise_failures,
    same_tasks,
    sum_over,
)
from gradaccord.core.sharding import Shards

CPU = torch.device("cpu")


def test_means_are_those_of_the_joined_batch():
    draw = random.Random(0)
    items = {task: [[draw.gauss(0, 1) for _ in range(n)] for n in (3, 0, 8)] for task in "ab"}
    items["c"] = [[], [2.0, 5.0], []]
    summaries = [
        Summary({t: (len(s[rank]), sum(s[rank]) / len(s[rank])) for t, s in items.items() if s[rank]})
        for rank in range(3)
    ]
    means = means_of(summaries)
    assert [*means] == ["a", "b", "c"]
    for task, shares in items.items():
        joined = [x for share in shares for x in share]
        assert means[task] == (len(joined), pytest.approx(sum(joined) / len(joined), rel=1e-12))


def test_a_share_of_no_items_does_not_count_whatever_its_loss():
    means = means_of([Summary({"a": (0.0, float("nan"))}), Summary({"a": (2.0, 3.0)})])
    assert means == {"a": (2.0, 3.0)}


def test_the_first_process_that_failed_is_named_with_its_reason():
    raise_failures([Summary({"a": (1.0, 2.0)})] * 2)
    failed = [Summary({}), failure_of(OSError("disk full")), failure_of(ValueError("later"))]
    with pytest.raises(ProcessFailedError, match="^Process 1 of 3 failed: OSError: disk full$"):
        raise_failures(failed)


def test_one_process_keeps_its_own(group):
    losses = {"b": (3.0, 0.5), "a": (1.0, 2.0)}
    assert join_losses(losses, group) == losses
    assert gathered({"x": 1}, [group, group]) == [{"x": 1}]
    shards = Shards(parts=(group,), copies=(), device=CPU)
    assert same_tasks({"b": 1, "a": 2}, shards) == ["b", "a"]
    table = torch.tensor([1.5, -2.0], dtype=torch.float64)
    for share in (sum_over, first_one):
        share(table, group, CPU)
        assert table.tolist() == [1.5, -2.0]


def test_an_exception_is_raised_where_it_happened(group):
    shards = Shards(parts=(group,), copies=(), device=CPU)
    for collective in (
        lambda error: join_losses(error, group),
        lambda error: gathered(error, [group]),
        lambda error: same_tasks(error, shards),
    ):
        error = ZeroDivisionError("mine")
        with pytest.raises(ZeroDivisionError) as caught:
            collective(error)
        assert caught.value is error


def test_a_model_in_one_shard_keeps_its_bank(group):
    bank = Bank()
    bank.add("a", [torch.ones(2)], 0.25, torch.tensor(3.0, dtype=torch.float64), 4.0)
    bank.add("b", [torch.ones(2)], 1.0, torch.tensor(-1.0, dtype=torch.float64), 1.0)
    joined = join_shards(bank, Shards(parts=(group,), copies=(), device=CPU))
    assert (joined.tasks, joined.factors, joined.items) == (["a", "b"], [0.25, 1.0], [4.0, 1.0])
    assert [float(loss) for loss in joined.losses] == [3.0, -1.0]
