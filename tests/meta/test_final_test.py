"""The final test: the best state alone, by inner step, and all as an ensemble."""

from __future__ import annotations

import pytest
import torch
from few_shot_runs import same

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.meta.build import TEST_SEED, build_learner, build_network, fixed_tasks
from gradaccord.meta.evaluation import evaluate, evaluate_ensemble
from gradaccord.meta.final_test import CURVE, final_test
from gradaccord.meta.settings import settings_for

SETTINGS = settings_for(
    "fomaml", ways=2, filters=2, inner_steps=2, test_tasks=6, test_queries=2, curve_tasks=4
)


@pytest.fixture(scope="module")
def tried():
    """Classes of noise, a learner, and three states of it."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (16, 1, 16, 16), dtype=torch.uint8, generator=generator)
    classes = ImageClasses(images, torch.arange(4).repeat(4), tuple("abcd"))
    states = []
    for seed in range(3):
        torch.manual_seed(seed)
        learner = build_learner(SETTINGS, build_network(SETTINGS, classes))
        states.append({name: tensor.clone() for name, tensor in learner.state_dict().items()})
    return classes, learner, states


def test_it_is_the_evaluation_of_the_best_state_on_the_tasks_of_every_run(tried):
    classes, learner, states = tried
    seen = []

    def counter(what, total):
        return lambda done: seen.append((what, done, total))

    single, curve, ensemble = final_test(SETTINGS, learner, states, classes, counter)
    assert same(dict(learner.state_dict()), states[0])
    tasks = fixed_tasks(SETTINGS, classes, 6, TEST_SEED)
    assert single == evaluate(learner, tasks, by_step=False)
    assert ensemble == evaluate_ensemble(learner, states, tasks)
    assert (single.tasks, curve.tasks, ensemble.models) == (6, 4, 3)
    assert len(curve.by_step) == CURVE + 1  # though training takes 2 steps
    assert {what: (done, total) for what, done, total in seen} == {
        "testing": (6, 6), "testing by inner step": (4, 4), "testing the ensemble": (18, 18),
    }  # fmt: skip


def test_one_state_is_no_ensemble(tried):
    classes, learner, states = tried
    found = final_test(SETTINGS, learner, states[:1], classes, lambda what, total: lambda done: None)
    assert found[2] is None
