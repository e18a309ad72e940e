"""The two inner loops: one keeps a graph or computes it again, the other steps in place without one."""

from __future__ import annotations

import pytest
import torch
from few_shot_toys import (
    WAYS,
    assert_each_close,
    batch,
    held_gradients,
    made,
)
from torch import nn

from gradaccord.meta import MAML
from gradaccord.meta.learners.inner_loops import descend_, descended, last


@pytest.mark.parametrize("kind", ["FOMAML", "Reptile", "DotProd inner"])
def test_first_order_keeps_no_graph_across_steps(kind: str) -> None:
    learner, _ = made(kind)
    task = batch()[0]
    learner.logits(task, steps=0)
    places = []
    for params in learner.trajectory(task.support, task.support_labels, 3):
        assert all(tensor.grad_fn is None for tensor in params.values())
        places.append([params[name].data_ptr() for name in learner.adapted])
    assert all(row == places[0] for row in places)  # in place: the same memory at every step


@pytest.mark.parametrize("kind", ["MAML", "MetaSGD", "MAML++", "MAML++ running", "MAML shared"])
def test_recomputed_inner_steps_give_the_same_gradient_and_state(kind: str) -> None:
    (plain, its_optimizer), (saving, optimizer) = made(kind), made(kind, recompute=True)
    for seed in range(2):
        for learner, step in ((plain, its_optimizer), (saving, optimizer)):
            learner.backward(batch(seed=seed))
            held = held_gradients(learner)
            if learner is plain:
                true = held
            step.step()
            learner.after_step()
        assert any(gradient is not None and float(gradient.abs().max()) > 0 for gradient in true)
        assert_each_close(held, true)
    assert_each_close(list(saving.state_dict().values()), list(plain.state_dict().values()))


def test_recomputed_inner_steps_see_the_same_dropout() -> None:
    torch.manual_seed(0)
    layers = nn.Flatten(), nn.Linear(25, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, WAYS)
    model = nn.Sequential(*layers).double()
    found = []
    for recompute in (False, True):
        learner = MAML(model, inner_steps=4, recompute=recompute)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            learner.backward(batch(tasks=2))
        found.append(held_gradients(learner))
    assert_each_close(found[1], found[0])


@pytest.mark.parametrize("rates", ["one", "by weight"])
def test_a_step_in_place_is_the_differentiable_one(rates: str) -> None:
    generator = torch.Generator().manual_seed(0)

    def draw() -> list[torch.Tensor]:
        shapes = ((3, 2), (4,))
        return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]

    weights, direction = draw(), draw()
    alpha = 0.3 if rates == "one" else draw()
    each = [0.3, 0.3] if isinstance(alpha, float) else alpha
    expected = [w - a * d for w, a, d in zip(weights, each, direction, strict=True)]
    found = descended(weights, direction, alpha)
    torch.testing.assert_close(found, expected)
    descend_(weights, direction, alpha)
    torch.testing.assert_close(weights, expected)


def test_the_end_of_a_trajectory_is_its_last_parameters() -> None:
    steps = [{"w": torch.tensor(float(k))} for k in range(3)]
    assert last(iter(steps)) is steps[2]
    assert last(iter(())) == {}
