"""Peak memory and CPU time of one MAML task with and without `recompute=True`, on Conv-4 at 84x84.

python benchmarks/meta_memory.py [--steps 5 10] [--write]
"""

from __future__ import annotations

import argparse
import statistics

import torch
from measure import Arm, cpu_times, markdown, peak_memory, publish, setting

from gradaccord.meta import MAML, Task
from gradaccord.models.trunks.conv4 import Conv4

THREADS = 1
WAYS, SHOTS, QUERIES = 5, 5, 15


def one_task(steps: int, recompute: bool) -> Arm:
    """A meta-gradient of one task of mini-ImageNet's shape."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    learner = MAML(Conv4.maml_imagenet(WAYS), inner_lr=0.01, inner_steps=steps, recompute=recompute)
    labels = torch.arange(WAYS)
    support, query = (torch.rand(WAYS * count, 3, 84, 84) for count in (SHOTS, QUERIES))
    task = Task(support, labels.repeat(SHOTS), query, labels.repeat(QUERIES))
    return lambda: learner.backward([task])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[10])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="Update benchmarks/README.md.")
    arguments = parser.parse_args()
    rows = []
    for steps in arguments.steps:
        plain, saving = (peak_memory(one_task, steps, recompute) for recompute in (False, True))
        arms = {name: one_task(steps, name == "recompute") for name in ("plain", "recompute")}
        times = cpu_times(arms, arguments.rounds)
        medians = [f"{statistics.median(times[name]):.2f}" for name in arms]
        rows.append([f"{steps}", f"{plain:.0f}", f"{saving:.0f}", *medians])
    header = ["inner steps", "plain, MB", "recompute, MB", "plain, CPU s", "recompute, CPU s"]
    text = f"{setting('benchmarks/meta_memory.py', THREADS)}\n\n{markdown(header, rows)}"
    publish("meta-memory", text, arguments.write)


if __name__ == "__main__":
    main()
