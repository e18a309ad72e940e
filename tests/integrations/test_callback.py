"""Trajectories end where a Trainer's training does."""

from __future__ import annotations

from functools import partial

import pytest
from trainer_toy import (
    assert_same,
    bert,
    moved,
    sentences,
    trainer,
    weights,
)

import gradaccord
from gradaccord.integrations import AlignedTrainer

pytestmark = pytest.mark.usefixtures("one_thread")


def test_trajectory_is_evaluated_and_saved_at_phi_and_finished_at_the_end(tmp_path):
    seen = {}

    class Mine(AlignedTrainer):
        def evaluation_loop(self, *args, **options):
            seen[self.state.global_step] = weights(self.model)
            return super().evaluation_loop(*args, **options)

    start = weights(bert())
    made = trainer(
        tmp_path, kind=Mine, max_steps=6, eval_strategy="steps", eval_steps=2, save_strategy="steps",
        save_steps=2,
        trainer_options={
            "method": partial(gradaccord.SequentialReptile, inner_steps=4, outer_lr=0.1),
            "eval_dataset": sentences(8, 5),
        },
    )  # fmt: skip
    made.train()
    assert_same(seen[2], start)  # phi has not moved yet
    assert moved(seen[4], start)
    assert made.method.step == 0
    assert_same(seen[6], weights(made.model))  # the half trajectory was ended before
    for step, at in seen.items():
        saved = type(made.model).from_pretrained(tmp_path / f"checkpoint-{step}")
        assert_same(weights(saved), at)


def test_early_stopping_inside_a_trajectory_ends_it(tmp_path):
    from transformers import EarlyStoppingCallback

    made = trainer(
        tmp_path, max_steps=20, learning_rate=0.0, eval_strategy="steps", eval_steps=1,
        save_strategy="steps", save_steps=1, load_best_model_at_end=True, metric_for_best_model="loss",
        trainer_options={
            "method": partial(gradaccord.SequentialReptile, inner_steps=15),
            "eval_dataset": sentences(8, 5),
            "callbacks": [EarlyStoppingCallback(2)],
        },
    )  # fmt: skip
    made.train()
    assert made.state.global_step == 3
    assert made.method.step == 0
