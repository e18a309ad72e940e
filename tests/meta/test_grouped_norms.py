"""Groups in one pass: the numbers of one pass for each group."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm

from gradaccord.meta.network.grouped_norms import GroupedNorms

MODELS = {
    "features": lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)),
    "images": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.Conv2d(4, 3, 2)
    ),
}
SHAPES = {"features": (6,), "images": (2, 5, 5)}


@pytest.mark.parametrize("kind", MODELS)
def test_each_group_is_normalised_by_itself(kind: str) -> None:
    torch.manual_seed(0)
    model = MODELS[kind]().double()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.track_running_stats, module.running_mean, module.running_var = False, None, None
    groups = torch.rand(5, 4, *SHAPES[kind], dtype=torch.float64)
    apart = torch.stack([model(group) for group in groups])
    with GroupedNorms(5):
        together = model(groups.flatten(0, 1)).unflatten(0, (5, 4))
    assert (together - apart).abs().max() <= 1e-12
    assert (model(groups.flatten(0, 1)).unflatten(0, (5, 4)) - apart).abs().max() > 1e-3


def test_running_statistics_are_used_as_they_are() -> None:
    hidden, mean, variance = torch.rand(6, 3), torch.rand(3), torch.rand(3)
    with GroupedNorms(2):
        found = batch_norm(hidden, mean, variance)
    assert torch.equal(found, batch_norm(hidden, mean, variance))
