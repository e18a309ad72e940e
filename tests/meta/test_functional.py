"""Predictions for queries, and the network that is used."""

from __future__ import annotations

import pytest
import torch
from few_shot_toys import Net, batch, leaves, loss, made, train
from torch import nn
from torch.nn import functional as F

from gradaccord.meta import MAML, Task
from gradaccord.meta.network.functional import FunctionalModel
from gradaccord.meta.network.general import batch_statistics


def test_a_query_is_predicted_with_the_support_set_alone_beside_it() -> None:
    learner, optimizer = made("MAML")
    train(learner, optimizer, range(2))
    task = batch(seed=8)[0]
    weights = learner.adapt(task.support, task.support_labels)
    learner.model.train()
    for place in range(len(task.query)):
        images = torch.cat([task.support, task.query[place : place + 1]])
        expected = torch.func.functional_call(learner.model, weights, (images,))[-1]
        assert torch.allclose(learner.logits(task)[place], expected, rtol=0, atol=1e-12)


class Mixing(nn.Module):
    """Examples of a batch meet outside of any norm."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs - inputs.mean(0))


NETWORKS = {
    "together": lambda: nn.Linear(6, 4),
    "grouped": lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4)),
    "one by one": Mixing,
}


@pytest.mark.parametrize("way", NETWORKS)
def test_queries_are_predicted_the_fastest_way_that_equals_one_pass_for_each(way: str) -> None:
    torch.manual_seed(0)
    functional = FunctionalModel(NETWORKS[way]().double(), F.cross_entropy, fast=True)
    support, query = (torch.rand(n, 6, dtype=torch.float64) for n in (3, 50))
    params = functional.parameters()
    functional.choose(support)
    with batch_statistics(functional.model):
        found = functional.predict(params, support, query, transductive=False)
        passes = [functional.model(torch.cat([support, one.unsqueeze(0)]))[-1] for one in query]
    assert functional._way == way
    assert (found - torch.stack(passes)).abs().max() <= 1e-12


def test_a_last_layer_of_zeros_does_not_hide_batch_statistics() -> None:
    model = Net()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    learner = MAML(model)
    task = batch(seed=8)[0]
    found = learner.logits_by_step(task)
    alone = Task(task.support, task.support_labels, task.query[:1], task.query_labels[:1])
    assert torch.allclose(learner.logits_by_step(alone)[:, 0], found[:, 0], rtol=0, atol=1e-12)
    assert not found[0].any()


def test_the_hand_written_loss_is_the_learners() -> None:
    learner = MAML(Net())
    task = batch()[0]
    value = loss(leaves(learner.model), task.support, task.support_labels).detach()
    outputs = learner.network(dict(learner.model.named_parameters()), task.support)
    assert torch.allclose(F.cross_entropy(outputs, task.support_labels).detach(), value)


@pytest.mark.parametrize("kind", ["classes", "some left out", "shares", "own loss"])
def test_the_slope_of_the_loss_is_that_of_autograd(kind: str) -> None:
    torch.manual_seed(0)
    outputs = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 2, 1, 0])
    if kind == "some left out":
        labels[2:4] = -100
    if kind == "shares":
        labels = torch.rand(6, 3, dtype=torch.float64).softmax(1)
    own = kind == "own loss"
    of = F.multi_margin_loss if own else F.cross_entropy
    functional = FunctionalModel(nn.Linear(2, 3), of, fast=True)
    (true,) = torch.autograd.grad(of(outputs, labels), outputs)
    with torch.inference_mode():
        found = functional.slope(outputs.detach().clone(), labels)
    assert torch.equal(found.clone(), true)


def test_labels_that_do_not_fit_are_told_with_the_slope_too() -> None:
    functional = FunctionalModel(nn.Linear(2, 3), F.cross_entropy, fast=True)
    with pytest.raises(ValueError, match="Labels run to 4 and the model has 3 outputs"):
        functional.slope(torch.rand(2, 3), torch.tensor([0, 4]))
