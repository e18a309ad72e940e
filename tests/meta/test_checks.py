"""What a learner is given is checked before anything runs: options, model, tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from few_shot_toys import Net, batch

from gradaccord.meta import MAML, Task, TaskBatch
from gradaccord.meta.learners.checks import check_tasks, rate_of

BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "rate": (lambda: MAML(Net(), inner_lr=-1), "`inner_lr` is -1: use a positive number such as 0.1."),
    "model": (lambda: MAML("net"), "`model` must be a torch.nn.Module, got str."),
    "no batch": (lambda: MAML(Net()).backward(3), "`tasks` must be a TaskBatch or a list of Tasks"),
    "no task": (lambda: MAML(Net()).backward([]), "`tasks` holds no task: give at least one."),
    "no Task": (lambda: MAML(Net()).backward([1]), "Task 0 is a int: give a gradaccord.meta.Task."),
    "bytes": (
        lambda: MAML(Net()).backward(
            TaskBatch(*(torch.zeros(1, 3, 1, 5, 5, dtype=torch.uint8), torch.zeros(1, 3)) * 2)
        ),
        "The support inputs of task 0 are bytes",
    ),
    "labels": (
        lambda: MAML(Net()).backward([Task(torch.zeros(3, 2), torch.zeros(2), *[torch.zeros(1)] * 2)]),
        "Task 0 has 3 support inputs and 2 labels: give one label per input.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_are_one_sentence(case: str) -> None:
    call, sentence = BAD[case]
    with pytest.raises((ValueError, TypeError)) as raised:
        call()
    assert str(raised.value).startswith(sentence)
    assert str(raised.value).count(". ") == 0


@pytest.mark.parametrize("value", [0, -0.1, float("inf"), float("nan"), True, "0.1", None])
def test_a_rate_is_a_positive_finite_number(value: object) -> None:
    with pytest.raises(ValueError, match=f"`outer_lr` is {value!r}: use a positive number"):
        rate_of("outer_lr", value)
    assert rate_of("outer_lr", 2) == 2.0


def test_a_batch_and_a_list_give_the_same_tasks() -> None:
    tasks = batch(tasks=2)
    for given in (tasks, list(tasks), tuple(tasks)):
        found = check_tasks(given)
        assert all(torch.equal(a.query, b.query) for a, b in zip(found, tasks, strict=True))


def test_a_task_without_support_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Task 0 has no support examples: give at least one shot\."):
        check_tasks(batch(shots=0))
