"""What the docs invite users of the Trainer to override takes effect as they say."""

from __future__ import annotations

from typing import Any

from trainer_toy import assert_same, bert, moved, tagged, tagger, trainer, weights

import gradaccord
from gradaccord.integrations import AlignedTrainer

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
