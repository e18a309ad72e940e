"""AlignedTrainer: the tasks' losses, their scaling, what it is composed with, and what it refuses."""

from __future__ import annotations

import json
from functools import partial

import pytest
import torch
from torch import nn
from trainer_toy import (
    arguments,
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
from transformers.modeling_outputs import SequenceClassifierOutput

import gradaccord
from gradaccord.data.samplers import (
    ProportionalTasks,
    RoundRobinTasks,
    SequentialTasks,
    TaskBatches,
    UniformTasks,
)
from gradaccord.integrations import AlignedTrainer
from gradaccord.integrations.step_sampler import Plan

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


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"method": "pcgard"}, ValueError, "`method` is 'pcgard': did you mean 'pcgrad'"),
        ({"method": 3}, TypeError, "`method` is 3: give a name"),
        ({"train_dataset": {}}, ValueError, "`train_dataset` is an empty mapping"),
    ],
)
def test_bad_options_are_refused_when_the_trainer_is_made(tmp_path, options, error, match):
    given = {"train_dataset": data()} | options
    with pytest.raises(error, match=match):
        AlignedTrainer(bert(), arguments(tmp_path), **given)


def test_method_that_is_already_built_is_refused(tmp_path):
    model = bert()
    with pytest.raises(TypeError, match="`method` is a PCGrad that is already built"):
        trainer(tmp_path, model, trainer_options={"method": gradaccord.PCGrad(model)})


def test_data_that_does_not_fit_is_refused_before_training(tmp_path):
    sampler = ProportionalTasks({"a": 3, "c": 4})
    with pytest.raises(ValueError, match="`sampler` draws the task 'c', and `train_dataset` has a, b"):
        trainer(tmp_path, trainer_options={"sampler": sampler}).train()
    stream = (row for row in sentences(4, 1))
    with pytest.raises(TypeError, match="task 'b' is a generator without a length"):
        trainer(tmp_path, tasks={"a": sentences(4, 1), "b": stream}).train()
    with pytest.raises(ValueError, match="use 'random' or 'sequential'"):
        trainer(tmp_path, train_sampling_strategy="group_by_length").train()


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [("is_fsdp_enabled", True, "`fsdp` is on"), ("n_gpu", 2, "2 devices are used by one process")],
)
def test_engines_that_give_no_gradient_out_are_refused(tmp_path, monkeypatch, field, value, match):
    made = trainer(tmp_path)
    if field == "n_gpu":
        monkeypatch.setattr(made.args, "_n_gpu", value)
    else:
        monkeypatch.setattr(made, field, value)
    with pytest.raises(ValueError, match=match):
        made._build_method()
    assert made.method is None


def test_processes_share_every_batch_without_overlap():
    """Equal weights cannot show it: the mean over copies of a batch is the batch's own."""

    def drawn(rank, world):
        plan = Plan(
            RoundRobinTasks({"a": 6, "b": 6}),
            lambda: {task: TaskBatches(range(21), 4, seed=i) for i, task in enumerate("ab")},
            steps=9,
            accumulation=2,
            rank=rank,
            world=world,
        )
        return [(draw.name, draw.examples) for micro in plan for draw in micro]

    # 21 examples in batches of 4 leave one, which two processes cannot share: it is left out.
    whole = [part for part in drawn(0, 1) if len(part[1]) > 1]
    for (name, one), (_, first), (_, second) in zip(whole, drawn(0, 2), drawn(1, 2), strict=False):
        assert name in "ab"
        assert not set(first) & set(second)
        assert sorted(first + second) == sorted(one)


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
