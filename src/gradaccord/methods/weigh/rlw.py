"""Random loss weighting: weights redrawn at every step."""

from __future__ import annotations

import torch

from gradaccord.methods.weigh.loss_weighting import LossWeighting, softmax


class RLW(LossWeighting):
    """Random loss weighting (Lin et al. 2022, "Reasonable Effectiveness of Random Weighting").

        w = T softmax(z),    z ~ N(0, 1) for each task

    The control for all weightings: one that does no better than random weights has learned nothing.
    Draws come from the method's own generator (`seed`). Losses may have any sign. Cost: see
    `LossWeighting`.
    """

    def weigh(self, losses: dict[str, float]) -> dict[str, float]:
        drawn = torch.randn(len(losses), generator=self.generator, dtype=torch.float64, device="cpu")
        shares = softmax(dict(zip(losses, drawn.tolist(), strict=True)))
        return {task: len(losses) * share for task, share in shares.items()}
