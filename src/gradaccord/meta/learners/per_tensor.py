"""Something for each adapted tensor of a model, kept under its name in the checkpoint."""

from __future__ import annotations

import torch
from torch import nn


class PerTensor(nn.Module):
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
