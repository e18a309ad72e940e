"""`train.checkpointing` and `train.compile` on the trunk of a run, or why they cannot be."""

from __future__ import annotations

from typing import Any

from gradaccord.models.trunks.execution import compile_trunk
from gradaccord.train.config import Config
from gradaccord.train.setup import Problem


def switch_checkpointing(config: Config, problem: Problem) -> None:
    """Before the model is wrapped."""
    if not config.train.checkpointing:
        return
    for term in config.regularize:
        if "module" in term.options:
            raise ValueError(
                f"`train.checkpointing` is on, and `regularize` {term.name} perturbs the module "
                f"{term.options['module']!r}, which would be computed again without it: leave `module` "
                "out, or set train.checkpointing to false."
            )
    problem.model.trunk.checkpoint()


def switch_compilation(config: Config, problem: Problem, accelerator: Any) -> None:
    """After the model is wrapped, moved to its device and set to training."""
    if not config.train.compile:
        return
    if config.regularize:
        raise ValueError(
            f"`train.compile` is on, and `regularize` {config.regularize[0].name} reaches into the "
            "trunk by hooks, which a compiled one does not run: set train.compile to false."
        )
    if getattr(accelerator, "is_fsdp2", False):
        raise ValueError(
            "`train.compile` is on, and the weights are sharded (FSDP2), which is not supported: set "
            "train.compile to false."
        )
    encoded = problem.prepared[problem.trained[0]].encoded["train"]
    rows = range(min(len(encoded), config.train.batch_size))
    batch = {k: v.to(accelerator.device) for k, v in encoded.batch(rows).items()}
    with accelerator.autocast():
        compile_trunk(problem.model.trunk, batch)
