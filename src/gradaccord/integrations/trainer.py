"""AlignedTrainer: Hugging Face's Trainer for several tasks, trained by any gradaccord method."""

from __future__ import annotations

from transformers import Trainer

from gradaccord.integrations.mixin import AlignedMixin


class AlignedTrainer(AlignedMixin, Trainer):
    """`transformers.Trainer` whose backward pass is a gradaccord method.

        trainer = AlignedTrainer(
            model, TrainingArguments("out", per_device_train_batch_size=16),
            method=gradaccord.PCGrad,
            train_dataset={"sst": sst, "sts": sts},
            eval_dataset={"sst": sst_dev, "sts": sts_dev},
        )
        trainer.train()

    Schedules, clipping, accumulation, bf16, gradient checkpointing, LoRA, DDP, callbacks,
    `load_best_model_at_end` and `resume_from_checkpoint` are the Trainer's own. Each log has the tasks'
    losses, cosines and the share of conflicts beside `loss`, which is the tasks' mean. A trajectory
    method is evaluated and saved at its outer weights, and its last trajectory is finished at the end.
    The options are those of `AlignedMixin` and of `Trainer`; all but model and args are given by
    keyword.
    """
