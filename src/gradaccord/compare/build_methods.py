"""Before the first run: every method, control and option of a comparison built on the real model."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gradaccord.compare.specs import Spec
from gradaccord.methods.registry import SINGLE_TASK
from gradaccord.train.config import Config, MethodConfig, ProbeConfig
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.run import make_accelerator
from gradaccord.train.setup import Problem


def check_builds(base: Config, specs: Sequence[Spec], gradients: int, problem: Problem) -> None:
    """Set every run up as far as its first step, so that a mistake costs no minutes of training.

    What cannot be built is told in one sentence with the method as it was given. `problem` stays as it
    is: each method gets a copy of its model.
    """
    accelerator = make_accelerator(base)
    nothing = ProbeConfig(cosine=False, distance=False)
    for spec in specs:
        config = spec.config(base, base.train.seed, gradients).model_copy(update={"probe": nothing})
        if spec.method == SINGLE_TASK:  # each task's own run is one of `sum`
            config = config.model_copy(update={"method": MethodConfig(name="sum"), "sampler": None})
        own = dataclasses.replace(problem, model=copy.deepcopy(problem.model))
        try:
            with tempfile.TemporaryDirectory() as folder:
                loop = TrainingLoop(config, own, Path(folder), accelerator)
                if len(loop.phases) > 1:  # behind a warm start, which is a plain sum
                    loop.begin(len(loop.phases) - 1)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"The method {str(spec)!r} cannot be built: {error}") from error
        finally:
            accelerator.free_memory()
