"""What the loop of `gradaccord train` costs beyond a hand-written one: MiniLM, one task and three.

    python benchmarks/loop.py [--rounds 15] [--write]

Both loops train MiniLM on the same batches with the same fused AdamW, schedule and clipping. The
hand-written one only knows the sum of the losses. Ours also draws the batches, writes the log, checks
for Ctrl-C, updates a screen, checks that all values are finite, and measures the cosines between the
tasks' gradients.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
from pathlib import Path
from typing import Any

import torch
from measure import Arm, cpu_times, markdown, publish, ratios, setting
from rich.console import Console
from torch.nn.utils import clip_grad_norm_

from gradaccord.cli.train_screen import Screen
from gradaccord.runs.interrupts import Interrupts
from gradaccord.runs.log import Log
from gradaccord.train.config import Config
from gradaccord.train.config_file import check_config
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.optimizers import make_optimizer
from gradaccord.train.phase import batches_of
from gradaccord.train.problem import load_problem
from gradaccord.train.run import make_accelerator

FLOOR, OURS = "hand-written loop (floor)", "gradaccord train, sum"
UNMEASURED = "gradaccord train, sum, measure: false"
TASKS = ("one", "two", "three")
BATCH = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, help="waiting threads spin: CPU time grows")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/README.md")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        for tasks in (1, 3):
            methods: dict[str, Any] = {OURS: "sum"}
            if tasks > 1:
                methods[UNMEASURED] = {"name": "sum", "measure": False}
            plain = configured(tasks, Path(folder), given.threads, "sum")
            arms: dict[str, Arm] = {FLOOR: by_hand(plain)}
            for name, method in methods.items():
                config = configured(tasks, Path(folder), given.threads, method)
                arms[name] = by_us(config, Path(tempfile.mkdtemp(dir=folder)))
            times = cpu_times(arms, given.rounds, warmup=2)
            for name, ratio in ratios(times, FLOOR).items():
                typical = sorted(times[name])[given.rounds // 2]
                rows.append([str(tasks), name, f"{1000 * typical:.0f}", f"{ratio:.3f}"])
            del arms
    table = markdown(["tasks", "loop", "ms of CPU a step", "CPU time / floor"], rows)
    command = f"benchmarks/loop.py --rounds {given.rounds}"
    publish("loop", f"{setting(command, given.threads)}\n\n{table}", given.write)


def write_data(folder: Path) -> None:
    """Sentences of 8 to 40 words with a class."""
    draw = random.Random(0)
    words = [f"{a}{b}" for a in ("re", "un", "in", "over") for b in ("turn", "line", "play", "form")]
    words += ["the", "film", "bank", "river", "price", "song", "of", "and", "was", "not"]
    for task in TASKS:
        with (folder / f"{task}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for i in range(640):
                writer.writerow([" ".join(draw.choices(words, k=draw.randint(8, 40))), f"class{i % 3}"])


def configured(tasks: int, folder: Path, threads: int, method: Any) -> Config:
    """Nothing is evaluated or saved during the run: that is not a cost of the loop."""
    return check_config(
        {
            "model": "minilm",
            "tasks": {
                task: {
                    "files": {"train": str(folder / f"{task}.csv")},
                    "kind": "classification",
                    "columns": {"first": "text", "label": "label"},
                }
                for task in TASKS[:tasks]
            },
            "method": method,
            "train": {
                "steps": 10_000,
                "batch_size": BATCH,
                "evaluate_every": 10_000,
                "save_every": 10_000,
                "threads": threads,
            },
            "probe": {"cosine": False, "distance": False},
        }
    )


def by_hand(config: Config) -> Arm:
    """What one would write: a batch of each task, the sum of their losses, clip, step."""
    torch.manual_seed(0)
    problem = load_problem(config)
    model = problem.model.train()
    batches = {
        task: batches_of(problem.prepared[task], BATCH, 7919 * i)
        for i, task in enumerate(problem.trained)
    }
    trunk = set(problem.model.trunk.parameters())
    heads = [p for p in model.parameters() if p not in trunk]
    optimizer = make_optimizer(config.train, problem.model.trunk.parameters(), heads)
    total = config.train.steps or 1
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 0.5) / (0.1 * total), 1.0)
    )

    def step() -> None:
        loss = torch.zeros(())
        for task in problem.trained:
            prepared = problem.prepared[task]
            batch = prepared.encoded["train"].batch(next(batches[task]))
            loss = loss + prepared.task.loss(model(task, batch), batch)[0]
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    return step


def by_us(config: Config, folder: Path) -> Arm:
    """A step of the same loop that the command runs."""
    torch.manual_seed(0)
    problem = load_problem(config)
    screen = Screen(Console(file=(folder / "screen.txt").open("w", encoding="utf-8")))
    loop = TrainingLoop(
        config, problem, folder, make_accelerator(config), show=screen.show, say=screen.say
    )
    steps = loop.steps(Log(folder / "log.jsonl"), Interrupts())
    return lambda: next(steps)


if __name__ == "__main__":
    main()
