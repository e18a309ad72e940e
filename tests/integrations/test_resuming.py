"""A run of AlignedTrainer, stopped and resumed, ends where the unbroken one ends, bit for bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from trainer_toy import assert_same, bert, sentences, trainer, weights
from transformers import TrainerCallback, default_data_collator

import gradaccord
from gradaccord.data.samplers import UniformTasks

pytestmark = pytest.mark.usefixtures("one_thread")

METHODS: dict[str, dict[str, Any]] = {
    "GradVac": {"method": partial(gradaccord.GradVac, beta=0.5)},
    "PCGrad": {"method": "PCGrad"},
    "GradNorm": {"method": "GradNorm"},
    "FAMO": {"method": "FAMO"},
    "DWA": {"method": partial(gradaccord.DWA, window=2)},
    "Sequential Reptile": {
        "method": partial(gradaccord.SequentialReptile, inner_steps=4, outer_lr=0.3)
    },
    "Averaged": {"method": partial(gradaccord.Averaged, decay=0.8)},
    "Averaged from a step on": {"method": partial(gradaccord.Averaged, average="swa", start=10)},
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


@pytest.mark.parametrize("name", METHODS)
def test_resumed_run_is_bit_equal(tmp_path, name):
    expected = run(tmp_path / "whole", METHODS[name])
    run(tmp_path / "broken", METHODS[name], stop=11)
    assert sorted(path.name for path in (tmp_path / "broken").iterdir())[-1] == "checkpoint-9"
    resumed = run(tmp_path / "broken", METHODS[name], resume=True)
    assert_same(weights(resumed.model), weights(expected.model))
    assert resumed.state.global_step == 17


def test_and_with_accumulation_from_an_end_of_an_epoch(tmp_path):
    """5 steps are a whole epoch of the smallest task."""
    options = METHODS["GradVac"]
    more = {"accumulation": 2, "per_device_train_batch_size": 2, "save_steps": 5}
    expected = run(tmp_path / "whole", options, **more)
    run(tmp_path / "broken", options, stop=7, **more)
    resumed = run(
        tmp_path / "broken", options, resume=str(tmp_path / "broken" / "checkpoint-5"), **more
    )
    assert_same(weights(resumed.model), weights(expected.model))


def test_data_loader_workers_read_ahead_and_resume_exactly(tmp_path):
    options = METHODS["two drawn tasks"] | {"data_collator": default_data_collator}
    expected = run(tmp_path / "whole", options, dataloader_num_workers=1)
    run(tmp_path / "broken", options, stop=11, dataloader_num_workers=1)
    resumed = run(tmp_path / "broken", options, resume=True)
    assert_same(weights(resumed.model), weights(expected.model))


def test_checkpoint_is_read_without_pickle_and_must_fit(tmp_path):
    options = METHODS["GradVac"]
    run(tmp_path, options, stop=5)
    folder = tmp_path / "checkpoint-3"
    torch.load(folder / "gradaccord.pt", weights_only=True)
    with pytest.raises(ValueError, match="saved with batch_size=4, and here it is 8: the position"):
        run(tmp_path, options, resume=str(folder), per_device_train_batch_size=8)
    with pytest.raises(ValueError, match="saved by 'GradVac', and this is 'PCGrad'"):
        run(tmp_path, METHODS["PCGrad"], resume=str(folder))
    with pytest.raises(ValueError, match="give the same `regularize`"):
        run(tmp_path, options | {"regularize": gradaccord.SMART}, resume=str(folder))
    (folder / "gradaccord.pt").unlink()
    with pytest.raises(ValueError, match="has no gradaccord.pt: it was saved by another trainer"):
        run(tmp_path, options, resume=str(folder))
