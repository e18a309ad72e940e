"""What AlignedTrainer trains on one process and on two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from trainer_toy import Streamed, bert, sentences, tagged, tagger, trainer, weights
from transformers import TrainerCallback

import gradaccord

__all__ = ["SCENARIOS", "train", "weights"]

TAGS = {"a": tagged(18, 1), "b": tagged(31, 2)}  # the last batch of a pass cannot be halved
SCENARIOS: dict[str, dict[str, Any]] = {
    "Sum": {"method": "Sum"},
    "PCGrad": {"method": "PCGrad"},
    "GradVac": {"method": partial(gradaccord.GradVac, granularity="layer", beta=0.2)},
    "Sequential Reptile": {
        "method": partial(gradaccord.SequentialReptile, inner_steps=4, outer_lr=0.5)
    },
    "DotProd": {"method": "DotProd"},
    "sequences": {"method": "PCGrad"},
    "streams": {"method": "PCGrad"},
}


# Under FSDP2, evaluated in the middle and saved: what is kept beside the model is in parts there.
SHARDED_SCENARIOS = ["GradVac", "Sequential Reptile"]
# By default BERT's embeddings are a unit, too, inside of which Accelerate then shards once more.
PLUGIN = {"version": 2, "transformer_layer_cls_to_wrap": ["BertLayer"]}
EVALUATED = {"eval_strategy": "steps", "eval_steps": 5}


@contextmanager
def sharding() -> Iterator[None]:
    """Accelerate takes up the Trainer's FSDP plugin on a GPU only: it is told to on this CPU."""
    import transformers.trainer as module
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    def told(**options: Any) -> Any:
        accelerator = Accelerator(**options)
        accelerator.state.fsdp_plugin = options["fsdp_plugin"]
        accelerator.state.distributed_type = DistributedType.FSDP
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        return accelerator

    module.Accelerator = told
    yield
    module.Accelerator = Accelerator
    for state in (AcceleratorState, PartialState):
        state._shared_state["distributed_type"] = DistributedType.MULTI_CPU
    AcceleratorState._shared_state.pop("fsdp_plugin")


class Stop(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt


def train(
    name: str,
    folder: Path,
    size: int,
    stop: int | None = None,
    resume: bool = False,
    **options: Any,
) -> Any:
    """Ten steps, two micro-batches of `size` each; without dropout, whose masks differ by process."""
    given = SCENARIOS[name] | ({"callbacks": [Stop(stop)]} if stop else {})
    sequences = name == "sequences"
    tasks = {"a": sentences(18, 1), "b": sentences(31, 2)} if sequences else TAGS
    if name == "streams":
        tasks = {task: Streamed(rows) for task, rows in TAGS.items()}
    if "eval_strategy" in options:
        given |= {"eval_dataset": {"a": tagged(8, 3)}}
    made = trainer(
        folder, bert(0.0) if sequences else tagger(), tasks, trainer_options=given, max_steps=10,
        per_device_train_batch_size=size, gradient_accumulation_steps=2, logging_strategy="steps",
        logging_steps=1, save_strategy="steps" if stop or resume else "no", save_steps=4, **options,
    )  # fmt: skip
    try:
        made.train(resume_from_checkpoint=resume or None)
    except KeyboardInterrupt:
        assert stop is not None
    return made
