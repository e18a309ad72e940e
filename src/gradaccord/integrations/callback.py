"""Where a Trainer's loop calls the method: after its steps, and at its beginning and end."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback


class MethodCallback(TrainerCallback):
    """Calls the trainer's method at the events at which a hand-written loop would."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Model and optimiser are ready: build the method, or continue with it."""
        self.trainer._build_method()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The optimiser has stepped."""
        self.trainer.method.after_step()
        if self.trainer.regularizer is not None:
            self.trainer.regularizer.after_step()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The last step ends a trajectory before it is evaluated and saved."""
        if control.should_training_stop or state.global_step >= state.max_steps:
            self.trainer._finish()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A stop after an evaluation also ends a trajectory, before the best model is loaded."""
        if control.should_training_stop:
            self.trainer._finish()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the model as it was given, apart from its weights."""
        self.trainer._detach_network()
