"""What a trainer's checkpoint holds of the method: one file, written at once, read without pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gradaccord.runs.files import read_tensors, write_tensors

NAME = "gradaccord.pt"


def save(folder: str | Path, method: Any, regularizer: Any, plan: dict[str, Any]) -> None:
    """Write the state of a run beside the model, which is saved at the outer weights."""
    state = {
        "plan": plan,
        "method": method.state_dict(),
        "regularizer": _of_regularizer(regularizer),
        "inner": {},
    }
    if state["method"].get("phi"):
        # Phi is what the model's own file holds: the inner weights are kept in its place.
        state["inner"] = {n: method.parameters[n].detach().clone() for n in state["method"]["phi"]}
        state["method"]["phi"] = {}
    path = Path(folder) / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, state)


def load(folder: str | Path, method: Any, regularizer: Any, plan: dict[str, Any]) -> None:
    """Continue from a folder written by `save`; the model's own weights have been loaded before."""
    path = Path(folder) / NAME
    if not path.is_file():
        raise ValueError(
            f"The checkpoint {folder} has no {NAME}: it was saved by another trainer or with "
            "save_only_model. Load the model from it, and train without resume_from_checkpoint."
        )
    state = read_tensors(path)
    for field, here in plan.items():
        if state["plan"].get(field) != here:
            raise ValueError(
                f"The checkpoint {folder} was saved with {field}={state['plan'].get(field)!r}, and "
                f"here it is {here!r}: the position in the data would not be the same."
            )
    if state["inner"]:
        tensors = method.parameters
        state["method"]["phi"] = {n: tensors[n].detach().clone() for n in state["inner"]}
        with torch.no_grad():
            for name, inner in state["inner"].items():
                tensors[name].copy_(inner)
    method.load_state_dict(state["method"])
    _to_regularizer(regularizer, state["regularizer"])


def network_of(regularizer: Any) -> torch.nn.Module | None:
    """What a regulariser trains beside the model: SWEP's network."""
    network = getattr(regularizer, "network", None)
    return network if isinstance(network, torch.nn.Module) else None


def _of_regularizer(regularizer: Any) -> Any:
    if regularizer is None:
        return None
    network = network_of(regularizer)
    if network is None:
        return regularizer.state_dict()
    return {"network": network.state_dict(), "extra": regularizer.get_extra_state()}


def _to_regularizer(regularizer: Any, state: Any) -> None:
    if (regularizer is None) != (state is None):
        raise ValueError(
            "The checkpoint was saved with a regulariser and here is none, or the reverse: give the "
            "same `regularize` as in the saved run."
        )
    network = network_of(regularizer)
    if network is not None:
        network.load_state_dict(state["network"])
        regularizer.set_extra_state(state["extra"])
    elif regularizer is not None:
        regularizer.load_state_dict(state)
