"""A Trainer's checkpoints also hold the method, so that training continues bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradaccord.core.method import Method
from gradaccord.methods.regularize.regularizer import Regularizer
from gradaccord.runs.files import read_tensors, write_tensors

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object

NAME = "gradaccord.pt"  # the file beside the model's in a checkpoint
LAYOUT = "plan"  # its key for the layout of the data
NETWORK = "swep_network"  # the name of SWEP's network while it is trained with the model


class ResumingMixin(_Trainer):
    """The part of `AlignedMixin` that saves, loads and resumes."""

    model: Any
    method: Any = None  # a `Method`, built when training begins
    regularizer: Regularizer | None = None
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

    @property
    def _network(self) -> Any:
        """What the regulariser trains beside the model, if anything."""
        return None if self.regularizer is None else self.regularizer.network

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
        # FSDP2's model for resuming is written here, and not by `save_model`.
        with self._outer_weights() if self.is_fsdp_enabled else nullcontext():
            fresh = self._is_fresh()
            super()._save_optimizer_and_scheduler(output_dir)
            self._refresh(fresh)
        if self.args.should_save or self.is_fsdp_enabled:
            file = Path(output_dir) / self._file_name
            save_method(file, self.method, self.regularizer, {**self._data_layout, "fresh": fresh})

    def _is_fresh(self) -> bool:
        """Whether the optimiser has no state, as after an outer update: FSDP2 would give it one."""
        inner: Any = getattr(self.optimizer, "optimizer", self.optimizer)
        return self.is_fsdp_enabled and not inner.state

    def _refresh(self, fresh: bool) -> None:
        if fresh:
            inner: Any = getattr(self.optimizer, "optimizer", self.optimizer)
            inner.state.clear()

    @property
    def _file_name(self) -> str:
        """The method's file: under FSDP2 every process has one, with its parts of the weights."""
        rank = self.args.process_index if self.is_fsdp_enabled else 0
        return f"{Path(NAME).stem}-{rank}.pt" if rank else NAME

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        self._resumed_from = checkpoint

    def _load_method(self) -> None:
        """Once the method is built: continue with what the checkpoint holds of it, if there is one."""
        if self._resumed_from is not None:
            file = Path(self._resumed_from) / self._file_name
            layout = load_method(file, self.method, self.regularizer, self._data_layout)
            self._refresh(layout.get("fresh", False))

    def get_batch_samples(self, *args: Any, **options: Any) -> Any:
        """As in every Trainer, with the random state restored before a batch is made, not after."""
        if self._resumed_from is not None:
            self._load_rng_state(self._resumed_from)
        return super().get_batch_samples(*args, **options)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if not self._random_restored:
            self._random_restored = True
            super()._load_rng_state(checkpoint)


def save_method(
    file: Path, method: Method, regularizer: Regularizer | None, layout: dict[str, Any]
) -> None:
    """Write the state of a run beside the model, which is saved at the outer weights."""
    state = {
        LAYOUT: layout,
        "regularizer": None if regularizer is None else regularizer.training_state(),
        **method.state_beside_model(),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(file, state)


def load_method(
    file: Path, method: Method, regularizer: Regularizer | None, layout: dict[str, Any]
) -> dict[str, Any]:
    """Continue from what `save_method` wrote, whose layout is returned.

    The model's own weights have been loaded before.
    """
    folder = file.parent
    if not file.is_file():
        raise ValueError(
            f"The checkpoint {folder} has no {file.name}: it was saved by another trainer or with "
            "save_only_model. Load the model from it, and train without resume_from_checkpoint."
        )
    state = read_tensors(file)
    saved: dict[str, Any] = state[LAYOUT]
    for field, here in layout.items():
        if saved.get(field) != here:
            raise ValueError(
                f"The checkpoint {folder} was saved with {field}={saved.get(field)!r}, and "
                f"here it is {here!r}: the position in the data would not be the same."
            )
    method.load_beside_model(state)
    _to_regularizer(regularizer, state["regularizer"])
    return saved


def _to_regularizer(regularizer: Regularizer | None, state: Any) -> None:
    if (regularizer is None) != (state is None):
        raise ValueError(
            "The checkpoint was saved with a regulariser and here is none, or the reverse: give the "
            "same `regularize` as in the saved run."
        )
    if regularizer is not None:
        regularizer.load_training_state(state)
