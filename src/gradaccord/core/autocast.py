"""Autocast keeps its casts of the weights until the region ends, and does not see that weights move."""

from __future__ import annotations

import torch


def weights_moved() -> None:
    """Forget the casts of the weights; to be called by all that moves weights, and back again.

    Otherwise, in an autocast region around the call, the next pass runs with the weights as they were.
    """
    torch.clear_autocast_cache()
