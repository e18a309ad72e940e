"""Pairs of batches, for DotProd and its kin: one rule, in a Trainer as on the command line."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from trainer_toy import sentences, trainer

from gradaccord.data.samplers import (
    ProportionalTasks,
    RoundRobinTasks,
    TaskBatches,
    TaskPairs,
    TaskSampler,
    UniformTasks,
)
from gradaccord.train.step_batches import StepBatches, make_sampler

SIZES = {"a": 24, "b": 160, "c": 48}


def of_trainer(tmp_path: Any, method: str = "DotProd", **options: Any) -> list[tuple[str, ...]]:
    """The names of the batches of forty steps, as a Trainer draws them."""
    tasks = {name: sentences(size, 1) for name, size in SIZES.items()}
    made = trainer(tmp_path, tasks=tasks, trainer_options={"method": method, **options}, seed=5)
    plan = made.get_train_dataloader().batch_sampler
    drawn: list[tuple[str, ...]] = []
    while len(drawn) < 40:
        drawn += [tuple(one.name for one in step) for step in plan]
    return drawn[:40]


def of_command_line(
    name: str | None = None, options: Any = None, pairs: Any = None
) -> list[tuple[str, ...]]:
    """The same as `gradaccord train` draws them."""
    batches = {task: TaskBatches(range(size), 4, seed=1) for task, size in SIZES.items()}
    sampler = make_sampler(name, options or {}, "pair", batches, 5, pairs)
    feeder = StepBatches(sampler, batches, "pair")
    return [tuple(one.name for one in next(feeder)) for _ in range(40)]


def test_the_trainer_and_the_command_line_draw_pairs_by_the_same_rule(tmp_path: Any) -> None:
    drawn = of_trainer(tmp_path)
    assert drawn == of_command_line()
    assert set(drawn) == {(f"{task}#1", f"{task}#2") for task in SIZES}
    assert of_trainer(tmp_path, "PairedSum") == drawn
    assert of_trainer(tmp_path, "SAM", method_options={"batches": 2}) == drawn
    # The task is drawn once a pair, as every method draws it that takes one task a step.
    tasks = [(f"{t}#1", f"{t}#2") for (t,) in islice(ProportionalTasks(SIZES, seed=5), 40)]
    assert drawn == tasks


def test_both_pair_two_tasks_if_asked_to(tmp_path: Any) -> None:
    sampler = TaskPairs(ProportionalTasks(SIZES, seed=5), "tasks")
    drawn = of_trainer(tmp_path, sampler=sampler)
    assert drawn == of_command_line("proportional", pairs="tasks")
    single = [task for (task,) in islice(ProportionalTasks(SIZES, seed=5), 80)]
    assert [tuple(n.partition("#")[0] for n in pair) for pair in drawn] == list(
        zip(single[::2], single[1::2], strict=True)
    )
    assert any(first != second for first, second in drawn)


@pytest.mark.parametrize("kind", ["uniform", "round_robin"])
def test_what_a_sampler_draws_at_once_is_paired_in_both(tmp_path: Any, kind: str) -> None:
    made: dict[str, TaskSampler] = {
        "uniform": UniformTasks(SIZES, n=2, seed=5),
        "round_robin": RoundRobinTasks({task: size // 4 for task, size in SIZES.items()}),
    }
    drawn = of_trainer(tmp_path, sampler=made[kind])
    assert drawn == of_command_line(kind, {"n": 2} if kind == "uniform" else {})
    assert all(first != second and "#" not in first for first, second in drawn[:1])
    own = of_trainer(tmp_path, sampler=TaskPairs(made[kind], "batches"))
    assert own == of_command_line(kind, {"n": 2} if kind == "uniform" else {}, "batches")
    assert set(own) == {(f"{task}#1", f"{task}#2") for task in SIZES}


def test_a_pair_is_two_consecutive_batches_of_its_task(tmp_path: Any) -> None:
    batches = {task: TaskBatches(range(size), 4, seed=1) for task, size in SIZES.items()}
    again = {task: TaskBatches(range(size), 4, seed=1) for task, size in SIZES.items()}
    feeder = StepBatches(make_sampler(None, {}, "pair", batches, 5), batches, "pair")
    for _ in range(20):
        for one in next(feeder):
            assert list(one.rows) == next(again[one.task])


@pytest.mark.parametrize("pairs", ["tasks", "batches", None])
def test_pairs_resume_exactly(pairs: Any) -> None:
    one, other = (TaskPairs(UniformTasks("abc", n=3, seed=s), pairs) for s in (1, 2))
    list(islice(one, 7))
    other.load_state_dict(one.state_dict())
    assert list(islice(other, 9)) == list(islice(one, 9))


def test_another_word_for_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="`pairs` is 'task': use 'batches' or 'tasks'"):
        TaskPairs(UniformTasks("ab"), "task")  # type: ignore[arg-type]
