"""Numbers that are reported: intervals over tasks, and the ensemble."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradaccord.meta import MAML, Reptile
from gradaccord.meta.episodes.image_tasks import Episodes, FixedTasks
from gradaccord.meta.episodes.sinusoid import Sinusoids
from gradaccord.meta.evaluation import (
    evaluate,
    evaluate_ensemble,
    mean_and_interval,
)
from gradaccord.models.trunks.conv4 import Conv4


def clouds(classes: int = 40, examples: int = 20, width: int = 6):
    """Classes that a linear layer tells apart after adaptation."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(classes, width, generator=generator)
    labels = torch.arange(classes).repeat_interleave(examples)
    noise = torch.randn(len(labels), width, generator=generator)
    return centres[labels] + 0.4 * noise, labels


def learner(seed: int = 0) -> MAML:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    return MAML(model, inner_lr=0.5, inner_steps=3)


def fixed(count: int = 40, **options) -> FixedTasks:
    return FixedTasks(clouds(), ways=5, shots=2, queries=4, count=count, **options)


def test_interval_is_over_tasks_and_equals_a_plain_computation():
    maml, tasks = learner(), fixed()
    result = evaluate(maml, tasks)
    accuracies = torch.stack(
        [
            (maml.logits_by_step(task).argmax(-1) == task.query_labels).double().mean(1)
            for batch in tasks
            for task in batch
        ]
    )
    assert result.tasks == 40
    assert result.steps == 3
    assert result.value == pytest.approx(100 * float(accuracies[:, -1].mean()))
    expected = 100 * 1.96 * float(accuracies[:, -1].std()) / math.sqrt(40)
    assert result.interval == pytest.approx(expected)
    assert result.by_step == pytest.approx((100 * accuracies.mean(0)).tolist())
    once = evaluate(maml, tasks, by_step=False)
    assert once.value == pytest.approx(result.value)
    assert once.interval == pytest.approx(result.interval)
    assert once.by_step == pytest.approx([result.value])


def test_accuracy_before_adaptation_is_chance_and_rises_with_steps():
    result = evaluate(learner(), fixed(150), steps=12)  # more steps than in training
    assert len(result.by_step) == 13
    assert abs(result.by_step[0] - 20) < 3 * result.interval_by_step[0] + 1
    assert result.by_step[-1] > 60


def test_the_flag_is_printed_and_evaluation_changes_nothing():
    maml = learner()
    before = {name: value.clone() for name, value in maml.state_dict().items()}
    state = torch.get_rng_state()
    result = evaluate(maml, fixed(5))
    assert "over 5 tasks, non-transductive, 3 inner steps" in str(result)
    assert ", transductive" in str(evaluate(maml, fixed(5), transductive=True))
    assert all(torch.equal(value, before[name]) for name, value in maml.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert result.transductive is False


def test_ensemble_is_the_mean_of_softmax_outputs_and_leaves_the_learner_alone():
    states = [learner(seed).state_dict() for seed in range(3)]
    maml, tasks = learner(7), fixed(6)
    before = {name: value.clone() for name, value in maml.state_dict().items()}
    result = evaluate_ensemble(maml, states, tasks)
    assert all(torch.equal(value, before[name]) for name, value in maml.state_dict().items())
    accuracies = []
    for batch in tasks:
        for task in batch:
            mean = sum(learner(seed).logits(task).softmax(-1) for seed in range(3))
            accuracies.append(float((mean.argmax(-1) == task.query_labels).double().mean()))
    assert result.value == pytest.approx(100 * sum(accuracies) / len(accuracies))
    assert result.models == 3
    assert "ensemble of 3" in str(result)
    assert "ensemble" not in str(evaluate(maml, tasks))
    with pytest.raises(ValueError, match="`checkpoints` is empty"):
        evaluate_ensemble(maml, [], tasks)


@pytest.mark.parametrize("method", [MAML, Reptile])
def test_tasks_on_threads_are_evaluated_as_one_by_one(method: type[MAML | Reptile]) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(60, 1, 16, 16, generator=generator)
    tasks = FixedTasks((images, torch.arange(60) // 6), ways=3, shots=2, queries=3, count=7, batch=4)
    found = []
    for threads in (1, 3):
        torch.manual_seed(0)
        one = method(Conv4(3, size=16, filters=4), inner_steps=2, threads=threads)
        states = [one.state_dict(), {k: v + 0 for k, v in one.state_dict().items()}]
        found.append((evaluate(one, tasks), evaluate_ensemble(one, states, tasks)))
        assert one._on_threads(4) == (threads > 1)
    assert found[0] == found[1]


def test_interval_of_one_task_is_unknown_and_no_task_an_error():
    assert mean_and_interval([3.0])[0] == 3.0
    assert math.isnan(mean_and_interval([3.0])[1])
    with pytest.raises(ValueError, match="is empty"):
        evaluate(learner(), [])


def test_waves_are_learned_and_judged_by_their_loss():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
    maml = MAML(network, inner_lr=0.01, inner_steps=1, loss=F.mse_loss)
    optimizer = torch.optim.Adam(maml.parameters(), lr=3e-3)
    tasks = [next(Sinusoids(queries=100, tasks=40))]
    before = evaluate(maml, tasks, loss=F.mse_loss)
    waves = Sinusoids(tasks=5)
    for _ in range(150):
        maml.backward(next(waves))
        optimizer.step()
        maml.after_step()
        optimizer.zero_grad()
    after = evaluate(maml, tasks, loss=F.mse_loss)
    assert after.unit == "loss"
    assert after.value < 0.9 * before.value
    assert after.by_step[1] < after.by_step[0]  # the inner step helps
    assert str(after).startswith("loss ")


def test_training_on_episodes_of_features_raises_accuracy():
    maml = learner()
    optimizer = torch.optim.Adam(maml.parameters(), lr=1e-2)
    before = evaluate(maml, fixed(100))
    episodes = Episodes(clouds(), ways=5, shots=2, queries=4, tasks=4)
    for _ in range(40):
        maml.backward(next(episodes))
        optimizer.step()
        maml.after_step()
        optimizer.zero_grad()
    after = evaluate(maml, fixed(100))
    assert after.value > before.value + before.interval + after.interval
