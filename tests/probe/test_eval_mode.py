"""A block in evaluation mode leaves modes, buffers and random state as they were."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from gradaccord.probe.eval_mode import evaluating


def made() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    model[3].eval()  # frozen
    return model


@pytest.mark.parametrize("fails", [False, True])
def test_every_module_has_its_own_mode_back_and_nothing_has_moved(fails: bool) -> None:
    model = made()
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    x = torch.ones(5, 3)
    try:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            assert torch.equal(model(x), model(x))  # no dropout
            torch.rand(3)
            model[1].running_mean.add_(1)
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert fails
    assert [module.training for module in model] == [True, True, True, False]
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
