"""Several processes of one run: joined by Accelerate, exchanging values, and ending if one is lost."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from gradaccord.core.failures import is_broken
from gradaccord.runs.freed_memory import keep_freed_memory

T = TypeVar("T")


class ProcessLostError(RuntimeError):
    """Another process of the run has ended."""


def make_accelerator(precision: str, threads: int | None, **options: Any) -> Any:
    """Accelerate, which joins the processes. precision: auto, fp32, bf16 or fp16."""
    from accelerate import Accelerator

    if threads is not None:
        torch.set_num_threads(threads)
    if precision == "auto":
        gpu = torch.cuda.is_available()
        precision = "bf16" if gpu and torch.cuda.is_bf16_supported() else "fp32"
    mixed = {"fp32": "no"}.get(precision, precision)
    keep_freed_memory()
    # Under torchrun on a CPU, Accelerate joins the processes only with `cpu=True`.
    on_cpu = not torch.accelerator.is_available()
    atexit.register(_end_process_group)
    return Accelerator(mixed_precision=mixed, cpu=on_cpu, **options)


def where(accelerator: Any) -> str:
    """The device that trains, with its precision and the number of threads and processes."""
    precision = {"no": "fp32"}.get(accelerator.mixed_precision, accelerator.mixed_precision)
    place = f"{accelerator.device.type}, {precision}"
    if accelerator.device.type == "cpu":
        place += f", threads: {torch.get_num_threads()}"
    if accelerator.num_processes > 1:
        place += f", processes: {accelerator.num_processes}"
    return place


def _end_process_group() -> None:
    """Destroy the process group: its threads can abort an interpreter that is shutting down."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        gc.collect()  # models that hold the group
        torch.distributed.destroy_process_group()


def gathered(accelerator: Any, value: T) -> list[T]:
    """The values of all processes, in each of them."""
    if accelerator.num_processes == 1:
        return [value]
    from accelerate.utils import gather_object

    return list(gather_object([value]))


@contextmanager
def others_alive(accelerator: Any, remedy: str = "continue with --resume") -> Iterator[None]:
    """Turn a backend's error about a lost process into one sentence."""
    try:
        yield
    except RuntimeError as error:
        if accelerator.num_processes == 1 or not is_broken(error):
            raise
        raise ProcessLostError(
            "Another process of this run has ended, and this one with it: see the other's message, "
            f"and {remedy}."
        ) from error
