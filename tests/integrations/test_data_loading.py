"""The loader of several tasks: collators, columns, steps of an epoch."""

from __future__ import annotations

from functools import partial

import pytest
from trainer_toy import (
    assert_same,
    sentences,
    trainer,
    weights,
)

import gradaccord
from gradaccord.data.samplers import (
    ProportionalTasks,
    SequentialTasks,
    UniformTasks,
)
from gradaccord.integrations import AlignedTrainer

pytestmark = pytest.mark.usefixtures("one_thread")


def test_collator_of_each_task(tmp_path):
    def shout(rows):
        called.append(len(rows))
        return default_data_collator(rows)

    from transformers import default_data_collator

    called = []
    made = trainer(
        tmp_path, max_steps=2,
        trainer_options={
            "data_collator": {"a": shout, "b": default_data_collator},
            "eval_dataset": {"a": sentences(8, 5), "b": sentences(8, 6)},
        },
    )  # fmt: skip
    made.train()
    assert called == [4, 4]
    made.evaluate()
    assert called == [4, 4, 8]


def test_hugging_face_data_sets_lose_the_columns_that_the_model_does_not_take(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = [
        {k: v.tolist() if hasattr(v, "tolist") else v for k, v in r.items()} for r in sentences(12, 1)
    ]
    made_of = datasets.Dataset.from_list([row | {"text": "word"} for row in rows])
    runs = []
    for tasks in ({"a": made_of, "b": made_of}, {"a": sentences(12, 1), "b": sentences(12, 1)}):
        made = trainer(tmp_path, tasks=tasks, max_steps=3)
        made.train()
        runs.append(weights(made.model))
    assert_same(*runs)


@pytest.mark.parametrize("workers", [0, 1])
def test_default_steps_and_epochs(tmp_path, workers):
    def run(**options):
        class Mine(AlignedTrainer):
            def training_step(self, model, inputs, *more):
                steps.append(tuple(part.name for part in inputs))
                return super().training_step(model, inputs, *more)

        steps = []
        made = trainer(
            tmp_path, kind=Mine, trainer_options=options, max_steps=-1, num_train_epochs=1,
            dataloader_num_workers=workers,
        )  # fmt: skip
        made.train()
        return steps

    assert run(method="GradVac") == [("a", "b")] * 6  # 24 examples of the smaller task
    drawn = run(method=partial(gradaccord.SequentialReptile, inner_steps=5))
    assert len(drawn) == 6 + 12
    assert set(drawn) == {("a",), ("b",)}
    drawn = run(method="DotProd")
    assert len(drawn) == 9
    assert set(drawn) == {("a#1", "a#2"), ("b#1", "b#2")}
    drawn = run(method="PairedSum", sampler=UniformTasks(["a", "b"], n=2))
    assert drawn == [("a", "b")] * 9
    assert run(sampler=SequentialTasks({"b": 2, "a": 1})) == [("b",), ("b",), ("a",)]


def test_data_that_does_not_fit_is_refused_before_training(tmp_path):
    sampler = ProportionalTasks({"a": 3, "c": 4})
    with pytest.raises(ValueError, match="`sampler` draws the task 'c', and `train_dataset` has a, b"):
        trainer(tmp_path, trainer_options={"sampler": sampler}).train()
    with pytest.raises(TypeError, match="task 'b' is a int without a length, and cannot be iterated"):
        trainer(tmp_path, tasks={"a": sentences(4, 1), "b": 7}).train()
    with pytest.raises(ValueError, match="use 'random' or 'sequential'"):
        trainer(tmp_path, train_sampling_strategy="group_by_length").train()
