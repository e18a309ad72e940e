"""Weights phi, kept beside those that are trained, and evaluated and saved instead of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from gradaccord.core.method import Method
from gradaccord.core.sharding import like, local
from gradaccord.core.temporary_weights import weights_moved


class OuterWeights(Method):
    """Base class: keeps `_phi` by parameter name. A subclass saves it as "phi" of its state."""

    parameters: dict[str, torch.Tensor]
    _phi: dict[str, torch.Tensor]
    _at_phi = False

    @abstractmethod
    def _apart(self) -> list[str]:
        """The parameters whose phi is not what the model holds now."""

    @contextmanager
    def at_phi(self) -> Iterator[None]:
        """Run a block (evaluation, saving the model) at phi; afterwards the weights are theta again.

        Theta comes back bit for bit, also when the block raises. The two are swapped one tensor at a
        time, so no second copy is made. Training inside the block is refused.
        """
        self._refuse_at_phi("at_phi")
        names = self._apart()
        self._at_phi = True
        try:
            swap(self.parameters, self._phi, names)
            yield
        finally:
            swap(self.parameters, self._phi, names)  # the same, whatever the block has frozen
            self._at_phi = False

    def outer_weights(self) -> AbstractContextManager[None]:
        """As `at_phi`; such blocks may be nested."""
        return nullcontext() if self._at_phi else self.at_phi()

    def state_dict(self) -> dict[str, Any]:
        """All that a run must save to continue exactly."""
        self._refuse_at_phi("state_dict")
        return super().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state, also in a fresh instance. Load the model's weights yourself."""
        self._refuse_at_phi("load_state_dict")
        super().load_state_dict(state)

    def state_beside_model(self) -> dict[str, Any]:
        """As `state_dict`, with theta in place of phi, which is what the model's own file holds."""
        state = self.state_dict()
        inner = {n: local(self.parameters[n].detach()).clone() for n in state["phi"]}
        return {"method": state | {"phi": {}}, "inner": inner}

    def load_beside_model(self, state: dict[str, Any]) -> None:
        """Continue from what `state_beside_model` returned, with a model that holds phi."""
        phi = {name: self.parameters[name].detach().clone() for name in state["inner"]}
        with torch.no_grad():
            for name, theta in state["inner"].items():
                local(self.parameters[name]).copy_(theta)
        self.load_state_dict(state["method"] | {"phi": phi})

    def _refuse_at_phi(self, call: str) -> None:
        if self._at_phi:
            raise RuntimeError(
                f"{call}() was called inside at_phi() or outer_weights(), where the weights are not "
                "those that are trained: leave the block first."
            )


def copied(parameter: torch.Tensor, memory: torch.Tensor | None) -> torch.Tensor:
    """The weights as they are now (this process's part), in `memory` if they fit there."""
    part = local(parameter.detach())
    if memory is None or (memory.shape, memory.dtype, memory.device) != (
        part.shape,
        part.dtype,
        part.device,
    ):
        return part.clone()
    return memory.copy_(part)


@torch.no_grad()
def swap(
    parameters: dict[str, torch.Tensor], tensors: dict[str, torch.Tensor], names: list[str]
) -> None:
    """Let weights and what is kept beside them change places, one tensor at a time."""
    for name in names:
        weights, kept = local(parameters[name].detach()), tensors[name]
        held = weights.clone()
        weights.copy_(kept)
        kept.copy_(held)
    weights_moved()


def saved(
    parameters: dict[str, torch.Tensor], tensors: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Copies of what is kept beside the weights, sharded as they are."""
    return {name: like(parameters[name], tensor.clone()) for name, tensor in tensors.items()}


def loaded(
    parameters: dict[str, torch.Tensor], field: str, state: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """What `saved` gave, as this process's parts; it must fit the parameters."""
    tensors = {}
    for name, tensor in state.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.shape != tensor.shape:
            here = "not in this model" if parameter is None else f"{tuple(parameter.shape)} here"
            raise ValueError(
                f"The state's `{field}` holds {name!r} of shape {tuple(tensor.shape)}, which is "
                f"{here}: load it with the model and the `heads` that it was saved with."
            )
        tensors[name] = torch.empty_like(local(parameter.detach())).copy_(local(tensor))
    return tensors
