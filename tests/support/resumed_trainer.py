"""Trainer runs that are interrupted and resumed."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from trainer_toy import bert, sentences, trainer
from transformers import TrainerCallback, default_data_collator

import gradaccord
from gradaccord.data.samplers import UniformTasks

METHODS: dict[str, dict[str, Any]] = {
    "GradVac": {"method": partial(gradaccord.GradVac, beta=0.5)},
    "PCGrad": {"method": "PCGrad"},
    "GradNorm": {"method": "GradNorm"},
    "Sequential Reptile": {
        "method": partial(gradaccord.SequentialReptile, inner_steps=4, outer_lr=0.3)
    },
    "Multi-task Reptile": {"method": partial(gradaccord.MultiTaskReptile, tasks=2, inner_steps=5)},
    "DotProd": {"method": partial(gradaccord.DotProd, control="noise")},
    "two drawn tasks": {"method": "PCGrad", "sampler": UniformTasks(["a", "b", "c"], n=2, seed=5)},
    "SMART with a teacher": {
        "method": "PCGrad",
        "regularize": partial(gradaccord.SMART, bregman=1.0),
    },
    "SWEP": {"method": "PCGrad", "regularize": gradaccord.SWEP},
}


class Interrupt(TrainerCallback):
    """Ends training in the middle of a step, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args, state, control, **_):
        if state.global_step == self.step:
            raise KeyboardInterrupt


def masked(rows):
    """A collator that draws from the global generator."""
    batch = default_data_collator(rows)
    batch["input_ids"][torch.rand(batch["input_ids"].shape) < 0.2] = 4
    return batch


def run(folder, options, resume=None, stop=None, **more):
    """17 steps with dropout and evaluation every 4. An epoch of the smallest task has 5 steps, so that
    a checkpoint every 3 falls inside epochs; and inside trajectories of 4 and 5.
    """
    tasks = {"a": sentences(20, 1), "b": sentences(36, 2), "c": sentences(28, 3)}
    given = {"data_collator": masked, "eval_dataset": sentences(8, 9)} | options
    if stop is not None:
        given["callbacks"] = [Interrupt(stop)]
    made = trainer(
        folder, bert(0.1), tasks, trainer_options=given, max_steps=17, save_strategy="steps",
        save_steps=more.pop("save_steps", 3), eval_strategy="steps", eval_steps=4, learning_rate=5e-3,
        gradient_accumulation_steps=more.pop("accumulation", 1), **more,
    )  # fmt: skip
    try:
        made.train(resume_from_checkpoint=resume)
    except KeyboardInterrupt:
        assert stop is not None
    return made
