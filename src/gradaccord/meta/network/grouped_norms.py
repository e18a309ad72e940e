"""Batch norm by groups: many small batches in one pass, each normalised by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.functional import batch_norm
from torch.overrides import TorchFunctionMode


class GroupedNorms(TorchFunctionMode):
    """While it is on, a batch norm sees its examples as `groups` equal groups, one after the other.

    Each group is normalised by its own statistics: equal to a pass for every group if examples of a
    batch meet in `torch.nn.functional.batch_norm` alone, without running statistics.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Every torch function as it is; batch norm by groups."""
        call = self._by_groups if func is batch_norm else func
        return call(*args, **(kwargs or {}))

    def _by_groups(
        self,
        hidden: torch.Tensor,
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> torch.Tensor:
        """The groups take the place of channels: [G n, C, ...] to [n, G C, ...] and back."""
        if not training or running_mean is not None:
            return batch_norm(hidden, running_mean, running_var, weight, bias, training, momentum, eps)
        scale, shift = (None if t is None else t.repeat(self.groups) for t in (weight, bias))
        groups = hidden.reshape(self.groups, -1, *hidden.shape[1:])
        folded = groups.transpose(0, 1).flatten(1, 2)
        normed = batch_norm(folded, None, None, scale, shift, True, momentum, eps)
        return normed.view(groups.transpose(0, 1).shape).transpose(0, 1).reshape(hidden.shape)
