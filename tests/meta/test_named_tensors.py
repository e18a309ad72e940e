"""Tensors under the names of the model's parameters: learned or only saved."""

from __future__ import annotations

import torch
from torch import nn

from gradaccord.meta.learners.named_tensors import NamedTensors


def test_names_with_dots_are_found_saved_and_loaded() -> None:
    kept = NamedTensors()
    kept.add("layers.0.weight", nn.Parameter(torch.ones(2)))
    kept.add("layers.0.bias", torch.zeros(3))
    assert [name for name, _ in kept.named_parameters()] == ["layers/0/weight"]
    assert [name for name, _ in kept.named_buffers()] == ["layers/0/bias"]
    assert kept["layers.0.weight"] is next(kept.parameters())
    other = NamedTensors()
    other.add("layers.0.weight", nn.Parameter(torch.full((2,), 7.0)))
    other.add("layers.0.bias", torch.ones(3))
    other.load_state_dict(kept.state_dict())
    assert other["layers.0.weight"].tolist() == [1.0, 1.0]
    assert other["layers.0.bias"].tolist() == [0.0] * 3
