"""Trajectory methods and RecAdam compared with plain AdamW training: CPU time and memory.

python benchmarks/trajectory.py [--rounds 20] [--threads 1]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import torch
from encoder import problem
from measure import Arm, cpu_times, markdown, publish, ratios, setting

from gradaccord.methods.combine.plain import Sum
from gradaccord.methods.regularize.recadam import RecAdam
from gradaccord.methods.trajectory.fomaml import FOMAML
from gradaccord.methods.trajectory.reptile import MultiTaskReptile, Reptile
from gradaccord.methods.trajectory.sequential_reptile import SequentialReptile

FLOOR = "plain training, fused AdamW (floor)"
ADAMW = partial(torch.optim.AdamW, lr=3e-5, weight_decay=0.01, fused=True)
PULLING, DONE = "RecAdam while it pulls", "RecAdam after annealing"
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    PULLING: partial(RecAdam, lr=3e-5, weight_decay=0.01, t0=1e9),
    DONE: partial(RecAdam, lr=3e-5, weight_decay=0.01, t0=-1e3),
}
METHODS: dict[str, Callable[..., Any]] = {
    "SequentialReptile, inner step": SequentialReptile,
    "the same with gradient=Sum(model)": lambda model, optimizer: SequentialReptile(
        model, optimizer, gradient=Sum(model)
    ),
}
OUTER: dict[str, Callable[..., Any]] = {
    "SequentialReptile": partial(SequentialReptile, inner_steps=4),
    "Reptile": Reptile,
    "FOMAML": FOMAML,
    "MultiTaskReptile": partial(MultiTaskReptile, tasks=1, inner_steps=4),
}


def training(name: str, threads: int) -> Arm:
    """One training step, each time on the next of four tasks, on a model of its own."""
    torch.set_num_threads(threads)
    model, losses, _ = problem(4)
    optimizer = OPTIMIZERS.get(name, ADAMW)(model.parameters())
    method = METHODS[name](model, optimizer) if name in METHODS else None
    batches = cycle(losses.items())

    def plain() -> None:
        _, loss = next(batches)
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    def with_method() -> None:
        task, loss = next(batches)
        method.backward({task: loss})
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()

    return plain if method is None else with_method


def optimizer_step(name: str, threads: int) -> Arm:
    """A bare step of an optimiser, with the gradients given."""
    torch.set_num_threads(threads)
    model, losses, _ = problem(1)
    optimizer = OPTIMIZERS.get(name, ADAMW)(model.parameters())
    for loss in losses.values():
        loss().backward()
    return optimizer.step


def outer_update(name: str, trajectories: int) -> tuple[float, float]:
    """CPU seconds of the `after_step` that ends a trajectory, and bytes held beyond plain training."""
    model, losses, _ = problem(1)
    optimizer = ADAMW(model.parameters())
    task, loss = next(iter(losses.items()))
    loss().backward()
    optimizer.step()
    optimizer.zero_grad()
    before = held()
    method = OUTER[name](model, optimizer)
    seconds = []
    most = 0
    for _ in range(trajectories):
        for _ in range(method.inner_steps):
            method.backward({task: loss})
            optimizer.step()
            optimizer.zero_grad()
            most = held()
            start = time.process_time()
            method.after_step()
            took = time.process_time() - start
        seconds.append(took)
    return statistics.median(seconds), most - before


def held() -> int:
    """Bytes in all tensors that are alive."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some objects warn when they are looked at
        tensors = [t for t in gc.get_objects() if isinstance(t, torch.Tensor)]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, help="waiting threads spin: CPU time grows")
    parser.add_argument("--write", action="store_true", help="write the tables to benchmarks/README.md")
    arguments = parser.parse_args()
    model, _, _ = problem(4)
    size = sum(p.numel() for p in model.parameters())
    del model

    arms = {name: training(name, arguments.threads) for name in (FLOOR, *METHODS, *OPTIMIZERS)}
    times = cpu_times(arms, arguments.rounds, warmup=3)
    del arms
    floor = statistics.median(times[FLOOR])
    rows = [[name, f"{ratio:.3f}"] for name, ratio in ratios(times, FLOOR).items()]
    tables = [markdown(["training step", "CPU time / floor"], rows)]

    rows = []
    for name in OUTER:
        seconds, more = outer_update(name, 4)
        rows.append([name, f"{seconds / floor:.3f}", f"{more / (4 * size):.2f}"])
    tables.append(markdown(["outer update", "CPU time / step", "more memory / parameters"], rows))

    steps = {name: optimizer_step(name, arguments.threads) for name in (FLOOR, *OPTIMIZERS)}
    rows = [
        [name, f"{ratio:.2f}"]
        for name, ratio in ratios(cpu_times(steps, 4 * arguments.rounds, warmup=3), FLOOR).items()
    ]
    tables.append(markdown(["optimiser step alone", "CPU time / fused AdamW"], rows))
    command = f"benchmarks/trajectory.py --rounds {arguments.rounds}"
    text = "\n\n".join([setting(command, arguments.threads), *tables])
    publish("trajectory", text, arguments.write)


if __name__ == "__main__":
    main()
