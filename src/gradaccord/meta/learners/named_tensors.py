"""Rates, moments or running means, one tensor for each parameter, under its name."""

from __future__ import annotations

import torch
from torch import nn


class NamedTensors(nn.Module):
    """Parameters or buffers named after the model's tensors (with `/` for the dots)."""

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """Keep a tensor; an nn.Parameter is learned, any other only saved."""
        key = name.replace(".", "/")
        if isinstance(tensor, nn.Parameter):
            self.register_parameter(key, tensor)
        else:
            self.register_buffer(key, tensor)

    def __getitem__(self, name: str) -> torch.Tensor:
        found: torch.Tensor = getattr(self, name.replace(".", "/"))
        return found
