"""A raw loop, Accelerate, Fabric, Lightning and AlignedTrainer end at the same weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from lightning_fabric import Fabric
from trainer_toy import TASKS, assert_same, bert, data, moved, trainer, weights
from transformers import TrainerCallback, default_data_collator

import gradaccord
from gradaccord.data.samplers import ProportionalTasks, TaskBatches

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 20
METHODS: dict[str, Any] = {
    "Sum": gradaccord.Sum,
    "PCGrad": gradaccord.PCGrad,
    "GradVac per layer": partial(gradaccord.GradVac, granularity="layer", beta=0.2),
    "GradNorm": gradaccord.GradNorm,
    "uncertainty": gradaccord.UncertaintyWeighting,
    "Sequential Reptile": partial(gradaccord.SequentialReptile, inner_steps=6, outer_lr=0.5),
    "DotProd": partial(gradaccord.DotProd, weight=0.1),
    "PairedSum": gradaccord.PairedSum,
}


@pytest.fixture(autouse=True)
def fresh_accelerate():
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def optimizer_of(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.5)


def task_batches():
    return {
        task: TaskBatches(rows, 4, collate=default_data_collator, seed=42 + i)
        for i, (task, rows) in enumerate(data().items())
    }


def steps_of(name):
    """The batches of each step, as a user would draw them by hand; 42 is the Trainer's own seed."""
    batches = task_batches()
    sizes = {task: len(rows) for task, rows in data().items()}
    one = ProportionalTasks(sizes, seed=42)
    for _ in range(STEPS):
        if name in ("DotProd", "PairedSum"):
            (task,) = next(one)
            yield {f"{task}#{i}": next(batches[task]) for i in (1, 2)}
        elif "Reptile" in name:
            (task,) = next(one)
            yield {task: next(batches[task])}
        else:
            yield {task: next(batches[task]) for task in TASKS}


def loss_of(model, batch):
    return model(**batch).loss


def looped(name, model, optimizer, scheduler, engine):
    method = METHODS[name](model, engine=engine, **needs(name, optimizer))
    torch.manual_seed(7)  # dropout
    for batches in steps_of(name):
        method.backward({task: partial(loss_of, model, batch) for task, batch in batches.items()})
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        method.after_step()
        scheduler.step()
        optimizer.zero_grad()
    method.finish()


def needs(name, optimizer):
    return {"optimizer": optimizer} if "Reptile" in name else {}


def raw(name):
    model = bert()
    looped(name, model, *optimizer_of(model), engine=None)
    return weights(model)


def with_accelerate(name):
    accelerator = Accelerator(cpu=True)
    model = bert()
    optimizer, scheduler = optimizer_of(model)
    wrapped, prepared = accelerator.prepare(model, optimizer)
    looped(name, wrapped, prepared, scheduler, accelerator)
    return weights(model)


def with_fabric(name):
    fabric = Fabric(accelerator="cpu", devices=1)
    model = bert()
    optimizer, scheduler = optimizer_of(model)
    wrapped, prepared = fabric.setup(model, optimizer)
    looped(name, wrapped, prepared, scheduler, fabric)
    return weights(model)


class SeedAtBegin(TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        torch.manual_seed(7)


def with_trainer(name, folder):
    model = bert()
    options = {
        "method": METHODS[name],
        "optimizers": optimizer_of(model),
        "callbacks": [SeedAtBegin()],
    }
    made = trainer(folder, model, trainer_options=options, max_steps=STEPS)
    made.train()
    return weights(model)


@pytest.mark.parametrize("name", METHODS)
def test_same_weights_after_20_steps(tmp_path, name):
    """In float32, with dropout, clipping and a schedule: bit for bit."""
    expected = raw(name)
    assert moved(expected, weights(bert()))
    assert_same(with_accelerate(name), expected)
    assert_same(with_fabric(name), expected)
    assert_same(with_trainer(name, tmp_path), expected)
