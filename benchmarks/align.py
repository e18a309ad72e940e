"""DotProd and SAM compared with two plain gradients: CPU time and memory.

python benchmarks/align.py [--rounds 15] [--threads 1] [--write]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from itertools import cycle

import torch
from encoder import problem
from measure import Arm, cpu_times, markdown, peak_memory, publish, ratios, setting
from rich.console import Console
from rich.progress import track

from gradaccord import SAM, DotProd, PairedSum

FLOOR = "two plain gradients (floor)"
TEN = "every=10, differences: ten batches"
TEN_FLOOR = "ten plain gradients (floor of the next)"
METHODS: dict[str, Callable[..., PairedSum]] = {
    "PairedSum": PairedSum,
    "DotProd, differences": partial(DotProd, mode="difference"),
    "SAM on pairs": partial(SAM, batches=2),
    "DotProd, centred differences": partial(DotProd, mode="difference", scheme="centred"),
    "DotProd, exact": DotProd,
    "DotProd, exact, cosine": partial(DotProd, objective="cosine"),
    "DotProd, exact, symmetric": partial(DotProd, scheme="symmetric"),
    "SAM, two batches one by one": SAM,
}

GROUPS = [list(METHODS)[:3], list(METHODS)[3:6], list(METHODS)[6:]]


def arm(name: str, threads: int) -> Arm:
    """A pair of batches (ten batches where the name says so), on a model of its own."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    model, losses, _ = problem(1)
    task, one = next(iter(losses.items()))
    tokens, labels = one.args[1:]
    two = partial(model.loss, task, tokens.flip(0).roll(1, 1), labels.flip(0))
    batches = cycle([one, two])

    def two_gradients() -> None:
        for _ in range(2):
            next(batches)().backward()
        model.zero_grad()

    def ten_steps() -> None:
        for _ in range(10):
            next(batches)().backward()
            model.zero_grad()

    if name in (FLOOR, TEN_FLOOR):
        return two_gradients if name == FLOOR else ten_steps
    method = METHODS[name](model) if name in METHODS else DotProd(model, mode="difference", every=10)

    def one_by_one(count: int) -> None:
        for _ in range(count):
            method.backward({task: next(batches)})
            model.zero_grad()

    def pair() -> None:
        method.backward({"one": one, "two": two})
        model.zero_grad()

    if name == TEN:
        return partial(one_by_one, 10)
    return partial(one_by_one, 2) if "one by one" in name else pair


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, help="waiting threads spin: CPU time grows")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/README.md")
    arguments = parser.parse_args()
    model, _, _ = problem(1)
    size = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20
    del model

    names = [FLOOR, *METHODS]
    measured: dict[str, float] = {}
    # Each group beside the floor; more models at once would drive each other's weights out.
    for group in GROUPS:
        arms = {n: arm(n, arguments.threads) for n in (FLOOR, *group)}
        measured |= ratios(cpu_times(arms, arguments.rounds), FLOOR)
        del arms
    tens = {n: arm(n, arguments.threads) for n in (TEN_FLOOR, TEN)}
    measured |= ratios(cpu_times(tens, max(3, arguments.rounds // 3)), TEN_FLOOR)
    del tens
    rows = []
    base = 0.0
    for name in track([*names, TEN_FLOOR, TEN], "memory", console=Console(stderr=True)):
        memory = peak_memory(arm, name, arguments.threads)
        base = memory if name == FLOOR else base
        rows.append([name, f"{measured[name]:.2f}", f"{memory:.0f}", f"{(memory - base) / size:.2f}"])
    header = [
        "way",
        "CPU time / floor",
        "peak memory over base, MB",
        "more than the floor, in parameters",
    ]
    command = f"benchmarks/align.py --rounds {arguments.rounds}"
    text = f"{setting(command, arguments.threads)}\n\n{markdown(header, rows)}"
    publish("align", text, arguments.write)


if __name__ == "__main__":
    main()
