"""Predictions for queries that do not see each other, or, if asked, that do (transduction)."""

from __future__ import annotations

import torch

from gradaccord.meta.network import Network, Params

IMAGES = 256  # examples in one forward pass, which bounds the memory


class Predictor:
    """Outputs for queries under adapted weights; batch statistics are the only tie between examples.

    transductive: all queries in one batch, whose statistics they share. Otherwise each query is
    run with the support set and without the other queries (as in supervised-reptile), many
    such batches side by side; a network without such ties takes all queries at once.
    """

    def __init__(self, general: Network, network: Network) -> None:
        self.general = general  # which torch can run on many batches side by side
        self.network = network
        self._tied: bool | None = None  # whether an output depends on the rest of the batch
        self._side_by_side = True  # until vmap fails

    def __call__(
        self, params: Params, support: torch.Tensor, query: torch.Tensor, transductive: bool
    ) -> torch.Tensor:
        """Outputs [queries, ...]; no graph."""
        with torch.no_grad():
            if self._tied is None:
                self._tied = self._is_tied(params, torch.cat([support, query]))
            if transductive or not self._tied:
                return self.network(params, query)
            return self._apart(params, support, query)

    def _is_tied(self, params: Params, inputs: torch.Tensor) -> bool:
        if len(inputs) < 3:
            return True
        together = self.network(params, inputs)[:2].double()
        alone = self.network(params, inputs[:2]).double()
        return float((together - alone).norm()) > 1e-4 * float(alone.norm())

    def _apart(self, params: Params, support: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        def one(example: torch.Tensor) -> torch.Tensor:
            return self.general(params, torch.cat([support, example.unsqueeze(0)]))[-1]

        if self._side_by_side:
            chunk = max(1, IMAGES // (len(support) + 1))
            try:
                outputs: torch.Tensor = torch.func.vmap(one, chunk_size=chunk)(query)
                return outputs
            except (RuntimeError, NotImplementedError):
                self._side_by_side = False
        return torch.stack([one(example) for example in query])
