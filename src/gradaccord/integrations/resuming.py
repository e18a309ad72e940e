"""A Trainer's checkpoints hold the method, too, and continue bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gradaccord.runs.files import read_tensors, write_tensors

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object

NAME = "gradaccord.pt"  # the file beside the model's in a checkpoint
NETWORK = "swep_network"  # the name of SWEP's network while it is trained with the model


class ResumingMixin(_Trainer):
    """The part of `AlignedMixin` that saves, loads and resumes."""

    model: Any
    method: Any = None  # a `Method`, built when training begins
    regularizer: Any = None
    _data_layout: dict[str, Any]  # what the position in the data depends on
    _resumed_from: str | None = None
    _random_restored = False

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **options: Any) -> Any:
        """As in every Trainer."""
        self._resumed_from = None
        self._random_restored = False
        return super().train(resume_from_checkpoint, *args, **options)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As in every Trainer, at the outer weights of a trajectory method."""
        with self._outer_weights(), self._without_network():
            super().save_model(output_dir, _internal_call)

    def _outer_weights(self) -> AbstractContextManager[None]:
        return nullcontext() if self.method is None else self.method.outer_weights()

    def _load_best_model(self) -> None:
        with self._without_network():
            super()._load_best_model()

    @contextmanager
    def _without_network(self) -> Iterator[None]:
        network = self.model._modules.pop(NETWORK, None)
        try:
            yield
        finally:
            if network is not None:
                self.model.add_module(NETWORK, network)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            save_method(output_dir, self.method, self.regularizer, self._data_layout)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        self._resumed_from = checkpoint

    def _load_method(self) -> None:
        """Once the method is built: continue with what the checkpoint holds of it, if there is one."""
        if self._resumed_from is not None:
            load_method(self._resumed_from, self.method, self.regularizer, self._data_layout)

    def get_batch_samples(self, *args: Any, **options: Any) -> Any:
        """As in every Trainer, with the random state restored before a batch is made, not after."""
        if self._resumed_from is not None:
            self._load_rng_state(self._resumed_from)
        return super().get_batch_samples(*args, **options)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if not self._random_restored:
            self._random_restored = True
            super()._load_rng_state(checkpoint)


def save_method(folder: str | Path, method: Any, regularizer: Any, layout: dict[str, Any]) -> None:
    """Write the state of a run beside the model, which is saved at the outer weights."""
    state = {
        "plan": layout,
        "method": method.state_dict(),
        "regularizer": None if regularizer is None else regularizer.training_state(),
        "inner": {},
    }
    if state["method"].get("phi"):
        # Phi is what the model's own file holds: the inner weights are kept in its place.
        state["inner"] = {n: method.parameters[n].detach().clone() for n in state["method"]["phi"]}
        state["method"]["phi"] = {}
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_tensors(Path(folder) / NAME, state)


def load_method(folder: str | Path, method: Any, regularizer: Any, layout: dict[str, Any]) -> None:
    """Continue from what `save_method` wrote; the model's own weights have been loaded before."""
    path = Path(folder) / NAME
    if not path.is_file():
        raise ValueError(
            f"The checkpoint {folder} has no {NAME}: it was saved by another trainer or with "
            "save_only_model. Load the model from it, and train without resume_from_checkpoint."
        )
    state = read_tensors(path)
    for field, here in layout.items():
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


def _to_regularizer(regularizer: Any, state: Any) -> None:
    if (regularizer is None) != (state is None):
        raise ValueError(
            "The checkpoint was saved with a regulariser and here is none, or the reverse: give the "
            "same `regularize` as in the saved run."
        )
    if regularizer is not None:
        regularizer.load_training_state(state)
