"""Tasks, items, logs and regularisers inside a Trainer, and what a user overrides."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
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
from transformers.modeling_outputs import SequenceClassifierOutput

import gradaccord
from gradaccord.integrations import AlignedTrainer

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_loss_function_that_divides_by_num_items_is_exact_too(tmp_path):
    def summed(outputs, labels, num_items_in_batch=None):
        total = nn.functional.cross_entropy(
            outputs.logits.flatten(0, 1), labels.flatten(), reduction="sum"
        )
        return total / num_items_in_batch

    tasks = {"a": tagged(24, 1), "b": tagged(48, 2)}
    runs = []
    for options in ({}, {"compute_loss_func": summed}):
        made = trainer(
            tmp_path, tagger(), tasks, trainer_options={"method": "PCGrad", **options},
            per_device_train_batch_size=2, gradient_accumulation_steps=3,
        )  # fmt: skip
        made.train()
        runs.append(weights(made.model))
    assert_same(runs[1], runs[0], 2e-6)


def test_batch_without_labels_is_left_out(tmp_path):
    empty = [row | {"labels": torch.full((8,), -100)} for row in tagged(8, 3)]
    made = trainer(tmp_path, tagger(), {"a": tagged(8, 1), "b": empty}, max_steps=2)
    made.train()
    assert made.report.tasks == ("a",)
    alone = trainer(tmp_path, tagger(), {"b": empty}, max_steps=2)
    with pytest.raises(ValueError, match="Step 1 has no item to learn from"):
        alone.train()


class TwoHeads(nn.Module):
    """A model that takes the task's name, and has a head for each."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(50, 8)
        self.heads = nn.ModuleDict({"a": nn.Linear(8, 3), "b": nn.Linear(8, 5)})

    def forward(self, input_ids, labels=None, task=None):
        logits = self.heads[task](self.words(input_ids).mean(1))
        return SequenceClassifierOutput(nn.functional.cross_entropy(logits, labels), logits)


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def test_model_with_heads_is_given_the_task_in_training_and_evaluation(tmp_path):
    seen = []

    def error(prediction):
        seen.append(prediction.predictions.shape)
        return {"error": 1 - accuracy(prediction)["accuracy"]}

    tasks = {"a": sentences(20, 1), "b": sentences(20, 2, classes=5)}
    made = trainer(
        tmp_path, TwoHeads(), tasks, max_steps=4,
        trainer_options={
            "method": "PCGrad",
            "eval_dataset": tasks,
            "compute_metrics": {"a": accuracy, "b": error},
        },
    )  # fmt: skip
    before = weights(made.model)
    made.train()
    metrics = made.evaluate()
    assert {"eval_a_loss", "eval_b_loss", "eval_a_accuracy", "eval_b_error"} <= metrics.keys()
    assert seen == [(20, 5)]
    assert all(moved({n: p}, before) for n, p in weights(made.model).items())
    assert made.predict(tasks["b"], metric_key_prefix="test_b").predictions.shape == (20, 5)


def test_a_users_compute_loss_sees_the_task(tmp_path):
    class Mine(AlignedTrainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            seen.append((self.task, len(inputs["labels"])))
            loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
            loss = loss * (2.0 if self.task == "a" else 1.0)
            return (loss, outputs) if return_outputs else loss

    seen = []
    made = trainer(tmp_path, kind=Mine, max_steps=2, trainer_options={"eval_dataset": data(4)})
    made.train()
    assert seen == [("a", 4), ("b", 4)] * 2
    made.evaluate()
    assert seen[4:] == [("a", 4), ("b", 8)]
    assert made.task is None


def test_logs_hold_the_means_of_the_reports(tmp_path):
    reports = []

    class Mine(AlignedTrainer):
        def training_step(self, *args):
            loss = super().training_step(*args)
            reports.append(self.report)
            return loss

    made = trainer(
        tmp_path, kind=Mine, trainer_options={"method": "PCGrad"}, max_steps=6,
        logging_strategy="steps", logging_steps=3,
    )  # fmt: skip
    made.train()
    logs = [entry for entry in made.state.log_history if "loss" in entry]
    for entry, span in zip(logs, (reports[:3], reports[3:]), strict=True):
        for key in ("loss/a", "cosine/a~b", "conflicts", "mean_cosine", "weight/b"):
            assert entry[key] == pytest.approx(sum(r.to_floats()[key] for r in span) / 3)
        assert entry["loss"] == pytest.approx((entry["loss/a"] + entry["loss/b"]) / 2, rel=1e-5)
    json.dumps(made.state.log_history)


@pytest.mark.parametrize("name", ["SMART", "SWEP"])
def test_regularisers_compose(tmp_path, name):
    start = getattr(gradaccord, name)
    runs = {}
    for weight in (0.0, 1.0):
        options = {"regularize": partial(start, weight=weight), "method": "PCGrad"}
        made = trainer(
            tmp_path, bert(0.0), trainer_options=options, logging_strategy="steps", logging_steps=3
        )
        made.train()
        runs[weight] = weights(made.model)
        assert not any("swep" in key for key in made.model.state_dict())
    plain = trainer(tmp_path, bert(0.0), trainer_options={"method": "PCGrad"})
    plain.train()
    assert_same(runs[0.0], weights(plain.model))
    assert moved(runs[1.0], runs[0.0])
    assert made.regularizer.step == 6
    key = "smart/divergence/a" if name == "SMART" else "swep/kl/b"
    assert key in made.state.log_history[0]
    if name == "SWEP":
        fresh = start(bert(0.0)).network.state_dict()
        assert moved(weights(made.regularizer.network), fresh)


def test_a_kind_per_task_for_smart(tmp_path):
    kinds = {"a": "classification", "b": "regression"}
    made = trainer(
        tmp_path,
        max_steps=1,
        trainer_options={"regularize": gradaccord.SMART, "regularize_kind": kinds},
    )
    made.train()
    assert {"smart/divergence/a", "smart/divergence/b"} <= made.regularizer.to_floats().keys()


def test_several_devices_of_one_process_are_refused(tmp_path, monkeypatch):
    made = trainer(tmp_path)
    monkeypatch.setattr(made.args, "_n_gpu", 2)
    with pytest.raises(ValueError, match="2 devices are used by one process"):
        made._build_method()
    assert made.method is None


@pytest.mark.parametrize(
    ("method", "per_step"), [("Sum", 8), ("DotProd", 8), ("PCGrad", 8), ("SequentialReptile", 4)]
)
def test_samples_per_second_counts_every_batch_of_a_step(tmp_path, method, per_step):
    """Two tasks or the two halves of a pair are two batches, which a Trainer takes for one."""
    options = (
        {"method": method, "method_options": {"inner_steps": 3}}
        if method.endswith("Reptile")
        else {"method": method}
    )
    for schedule in ({"max_steps": 6}, {"max_steps": -1, "num_train_epochs": 2}):
        made = trainer(tmp_path, trainer_options=options, **schedule)
        metrics = made.train().metrics
        seen = metrics["train_samples_per_second"] * metrics["train_runtime"]
        assert seen == pytest.approx(per_step * made.state.global_step, rel=0.01)
        assert made.state.log_history[-1]["train_samples_per_second"] == pytest.approx(
            metrics["train_samples_per_second"]
        )


SGD = {"optim": "sgd", "max_grad_norm": 0.0, "lr_scheduler_type": "constant", "max_steps": 2}


class Doubled(AlignedTrainer):
    def regularized(self, forward: Any, task: str, inputs: Any) -> Any:
        assert task in ("a", "b")
        assert "labels" in inputs

        def loss() -> Any:
            (value, items), _ = forward()
            return 2 * value, items

        return loss


class ByExamples(AlignedTrainer):
    def count_items(self, inputs: Any) -> int | None:
        return len(inputs["labels"])


class Unknown(AlignedTrainer):
    def count_items(self, inputs: Any) -> int | None:
        return None


def test_regularized_can_be_overridden(tmp_path):
    options = {"method": "Sum", "regularize": gradaccord.SMART}
    twice = trainer(
        tmp_path, bert(0.0), kind=Doubled, trainer_options=options, learning_rate=0.1, **SGD
    )
    plain = trainer(tmp_path, bert(0.0), trainer_options={"method": "Sum"}, learning_rate=0.2, **SGD)
    for each in (twice, plain):
        each.train()
    assert_same(weights(twice.model), weights(plain.model), 1e-6)
    assert moved(weights(plain.model), weights(bert(0.0)))


def test_count_items_can_be_overridden(tmp_path):
    """Micro-batches of like numbers of examples count alike by examples, and not by tokens."""
    tasks = {"a": tagged(16, 1), "b": tagged(16, 2)}
    found = []
    for kind in (ByExamples, Unknown, AlignedTrainer):
        made = trainer(
            tmp_path, tagger(), tasks, kind, {"method": "Sum"},
            gradient_accumulation_steps=2, learning_rate=0.1, **SGD,
        )  # fmt: skip
        made.train()
        found.append(weights(made.model))
    assert_same(found[0], found[1], 1e-6)
    assert any((found[0][name] - found[2][name]).abs().max() > 1e-4 for name in found[0])
