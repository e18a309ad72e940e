"""ResumingMixin: what makes a Trainer's checkpoints hold the method and continue bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from gradaccord.integrations import state

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object

NETWORK = "swep_network"  # the name of SWEP's network while it is trained with the model


class ResumingMixin(_Trainer):
    """The part of `AlignedMixin` that saves, loads and resumes."""

    model: Any
    method: Any = None  # a `Method`, built when training begins
    regularizer: Any = None
    _plan_of_run: dict[str, Any]  # what the position in the data depends on
    _resumed_from: str | None = None
    _random_restored = False

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **options: Any) -> Any:
        """As of every Trainer."""
        self._resumed_from = None
        self._random_restored = False
        return super().train(resume_from_checkpoint, *args, **options)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As of every Trainer, at the outer weights of a trajectory method."""
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
            state.save(output_dir, self.method, self.regularizer, self._plan_of_run)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        self._resumed_from = checkpoint

    def _load_method(self) -> None:
        """Once the method is built: continue with what the checkpoint holds of it, if there is one."""
        if self._resumed_from is not None:
            state.load(self._resumed_from, self.method, self.regularizer, self._plan_of_run)

    def get_batch_samples(self, *args: Any, **options: Any) -> Any:
        """As of every Trainer, with the random state restored before a batch is made, not after."""
        if self._resumed_from is not None:
            self._load_rng_state(self._resumed_from)
        return super().get_batch_samples(*args, **options)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if not self._random_restored:
            self._random_restored = True
            super()._load_rng_state(checkpoint)
