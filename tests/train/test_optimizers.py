"""Every optimiser takes a step, and unknown names are answered."""

import pytest
import torch

from gradaccord.train.config import TrainConfig
from gradaccord.train.optimizers import make_optimizer


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adafactor", "recadam"])
def test_every_optimiser_takes_a_step(name):
    trunk, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    train = TrainConfig(optimizer=name, lr=1e-4, head_lr=2e-4)
    optimizer = make_optimizer(train, trunk.parameters(), head.parameters())
    assert [group["lr"] for group in optimizer.param_groups] == [1e-4, 2e-4]
    before = head.weight.clone()
    head(trunk(torch.ones(3, 2))).square().mean().backward()
    optimizer.step()
    assert not torch.equal(before, head.weight)


def test_unknown_optimisers_and_options_are_answered():
    with pytest.raises(ValueError, match="did you mean 'adafactor'"):
        make_optimizer(TrainConfig(optimizer="adafctor"), [], [])
    train = TrainConfig(optimizer={"name": "adamw", "weight_dcay": 0.1})
    with pytest.raises(ValueError, match="did you mean 'weight_decay'"):
        make_optimizer(train, [], [])
