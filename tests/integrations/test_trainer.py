"""AlignedTrainer: every method learns, and options of the Trainer do as they say."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from trainer_toy import (
    assert_same,
    bert,
    data,
    moved,
    sentences,
    tagged,
    tagger,
    trainer,
    weights,
)
from transformers import Trainer, TrainerCallback

import gradaccord
from gradaccord.data.samplers import (
    UniformTasks,
)
from gradaccord.integrations import AlignedTrainer

pytestmark = pytest.mark.usefixtures("one_thread")


METHODS = {
    "Sum": {"method": "Sum"},
    "PCGrad": {"method": gradaccord.PCGrad},
    "GradVac per layer": {"method": "gradvac", "method_options": {"granularity": "layer"}},
    "Sequential Reptile": {
        "method": partial(gradaccord.SequentialReptile, inner_steps=3, outer_lr=0.5)
    },
    "Multi-task Reptile": {
        "method": partial(gradaccord.MultiTaskReptile, tasks=2, inner_steps=5, outer_lr=1.0)
    },
    "DotProd": {"method": partial(gradaccord.DotProd, weight=0.1)},
    "SAM": {"method": "SAM"},
    "SAM on pairs": {"method": "SAM", "method_options": {"batches": 2}},
    "Reptile through PCGrad": {
        "method": partial(
            gradaccord.SequentialReptile, inner_steps=5, outer_lr=0.5, gradient=gradaccord.PCGrad
        ),
        "sampler": UniformTasks(["a", "b"], n=2),
    },
}


@pytest.mark.parametrize("name", METHODS)
def test_every_kind_of_method_learns(tmp_path, name):
    made = trainer(
        tmp_path, bert(0.0), trainer_options=METHODS[name], max_steps=60, learning_rate=5e-3,
        lr_scheduler_type="constant",
    )  # fmt: skip
    before = made.evaluate(sentences(64, 1))["eval_loss"]
    made.train()
    assert made.evaluate(sentences(64, 1))["eval_loss"] < 0.9 * before


class SeedEachStep(TrainerCallback):
    """The stock loader draws from the global generator, and so shifts the dropout masks."""

    def on_step_begin(self, args, state, control, **_):
        torch.manual_seed(state.global_step)


def test_one_task_under_sum_is_the_stock_trainer_bit_for_bit(tmp_path):
    """Same weights from the same batches, with dropout, clipping and a schedule."""
    tasks = {"only": sentences(20, 3)}
    mine, stock = (
        trainer(
            tmp_path, tasks=given, kind=kind, max_steps=12, max_grad_norm=0.5,
            train_sampling_strategy="sequential", trainer_options={"callbacks": [SeedEachStep()]},
        )
        for kind, given in ((AlignedTrainer, tasks), (Trainer, tasks["only"]))
    )  # fmt: skip
    mine.train()
    stock.train()
    assert_same(weights(mine.model), weights(stock.model))
    assert mine.state.log_history[-1]["train_loss"] == pytest.approx(
        stock.state.log_history[-1]["train_loss"], rel=1e-6
    )


@pytest.mark.parametrize("method", ["Sum", "PCGrad", "PairedSum"])
@pytest.mark.parametrize("kind", ["sequences", "tags"])
def test_accumulation_equals_the_joined_batch(tmp_path, method, kind):
    """Tags: every micro-batch has another number of items."""
    tasks = data() if kind == "sequences" else {"a": tagged(24, 1), "b": tagged(48, 2)}
    model = partial(bert, 0.0) if kind == "sequences" else tagger
    runs = []
    for size, steps in ((8, 1), (2, 4)):
        made = trainer(
            tmp_path, model(), tasks, trainer_options={"method": method}, max_steps=5,
            per_device_train_batch_size=size, gradient_accumulation_steps=steps,
        )  # fmt: skip
        made.train()
        runs.append((weights(made.model), made.state.log_history[-1]["train_loss"]))
    assert_same(runs[1][0], runs[0][0], 2e-6)
    assert runs[1][1] == pytest.approx(runs[0][1], rel=1e-5)


def test_15_stock_trainer_multiplies_the_loss_of_a_sequence_classifier_by_accumulation(tmp_path):
    tasks = {"only": sentences(16, 3)}
    losses = {}
    for steps in (1, 4):
        made = trainer(
            tmp_path, bert(0.0), tasks, max_steps=1, per_device_train_batch_size=16 // steps,
            gradient_accumulation_steps=steps, logging_strategy="steps", logging_steps=1,
        )  # fmt: skip
        made.train()
        losses[steps] = made.state.log_history[0]
    assert losses[4]["loss"] == pytest.approx(losses[1]["loss"], rel=1e-5)
    assert losses[4]["grad_norm"] == pytest.approx(losses[1]["grad_norm"], rel=1e-4)


def test_lora(tmp_path):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["query", "value"], modules_to_save=["classifier"])
    model = peft.get_peft_model(bert(), config)
    before = weights(model)
    made = trainer(
        tmp_path, model, max_steps=6, save_strategy="steps", save_steps=3,
        trainer_options={"method": partial(gradaccord.GradVac, granularity="layer")},
    )  # fmt: skip
    made.train()
    after = weights(made.model)
    for name, p in made.model.named_parameters():
        assert moved({name: after[name]}, before) == p.requires_grad, name
    again = peft.PeftModel.from_pretrained(bert(), tmp_path / "checkpoint-6")
    assert_same(
        {n: p for n, p in weights(again).items() if "lora" in n},
        {n: p for n, p in after.items() if "lora" in n},
    )


def test_gradient_checkpointing_changes_nothing(tmp_path):
    runs = []
    for on in (False, True):
        made = trainer(tmp_path, trainer_options={"method": "PCGrad"}, gradient_checkpointing=on)
        made.train()
        assert made.model.is_gradient_checkpointing == on
        runs.append(weights(made.model))
    assert_same(runs[1], runs[0], 1e-6)


def test_bf16_runs_under_autocast_and_keeps_float32_weights(tmp_path):
    seen = set()
    model = bert(0.0)
    model.bert.encoder.layer[0].register_forward_hook(
        lambda m, i, o: seen.add((o[0] if isinstance(o, tuple) else o).dtype)
    )
    model.bert.encoder.layer[0].attention.self.query.register_forward_hook(
        lambda m, i, o: seen.add(o.dtype)
    )
    made = trainer(tmp_path, model, trainer_options={"method": "PCGrad"}, bf16=True, max_steps=10)
    made.train()
    full = trainer(tmp_path, bert(0.0), trainer_options={"method": "PCGrad"}, max_steps=10)
    full.train()
    assert torch.bfloat16 in seen
    assert all(p.dtype == torch.float32 for p in made.model.parameters())
    ends = [torch.cat([p.flatten() for p in weights(m.model).values()]) for m in (made, full)]
    assert 0 < float((ends[0] - ends[1]).norm() / ends[1].norm()) < 0.05


@pytest.mark.parametrize("method", ["PCGrad", "SequentialReptile"])
def test_best_model_is_the_one_that_was_evaluated(tmp_path, method):
    """Evaluated and saved inside trajectories of 4 steps."""
    options = {"inner_steps": 4, "outer_lr": 0.5} if method == "SequentialReptile" else {}
    held_out = {"a": sentences(24, 7), "b": sentences(24, 8)}
    made = trainer(
        tmp_path, bert(0.0), max_steps=15, learning_rate=2e-2, lr_scheduler_type="constant",
        eval_strategy="steps", eval_steps=3, save_strategy="steps", save_steps=3,
        load_best_model_at_end=True, metric_for_best_model="eval_a_loss", greater_is_better=False,
        trainer_options={"method": method, "method_options": options, "eval_dataset": held_out},
    )  # fmt: skip
    made.train()
    found = [e["eval_a_loss"] for e in made.state.log_history if "eval_a_loss" in e]
    assert len(found) == 5
    assert made.evaluate()["eval_a_loss"] == pytest.approx(min(found), rel=1e-6)
