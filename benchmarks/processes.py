"""What a step of four tasks costs on two processes, compared with plain DDP: time, bytes sent.

    python benchmarks/processes.py [--rounds 9] [--rates 0 1gbit] [--write]

Two processes of one thread each, through gloo. Each rate is measured in a network of its own, in which
the processes are alone and whose traffic is counted (`unshare` and `tc`, as root); 0 is the plain
loopback. Plain DDP trains on the summed loss. A step is losses, backward passes and reductions, without
the optimiser. Time is wall time, because waiting counts: run it on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from encoder import Encoder, problem
from measure import markdown, publish, setting
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradaccord

TASKS = 4
FLOOR = "plain DDP, summed loss (floor)"


class Losses(nn.Module):
    """The encoder as DDP needs it: everything in a step in one forward pass."""

    def __init__(self, model: Encoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, batches: dict[str, Any]) -> torch.Tensor:
        losses = [self.model.loss(task, *batch) for task, batch in batches.items()]
        return torch.stack(losses).sum()


class Wide(nn.Module):
    """Wide layers and no table, so that every task sends all of its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(1024, 1024), nn.GELU())])
        self.heads = nn.ModuleDict({f"task{t}": nn.Linear(1024, 3) for t in range(TASKS)})

    def loss(self, task: str, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.heads[task](self.trunk(x)), labels)


def encoder() -> tuple[nn.Module, dict[str, Any]]:
    model, own, _ = problem(TASKS)
    return model, {task: call.args[1:] for task, call in own.items()}


def wide() -> tuple[nn.Module, dict[str, Any]]:
    torch.manual_seed(0)
    made = [(torch.randn(64, 1024), torch.randint(0, 3, (64,))) for _ in range(TASKS)]
    return Wide(), {f"task{t}": batch for t, batch in enumerate(made)}


MODELS = {"encoder with a table of words": encoder, "wide layers": wide}


def arms(make: Callable[[], Any]) -> dict[str, Callable[[], object]]:
    """The ways to do a step, each on its own model."""
    made: dict[str, Callable[[], object]] = {}

    def replica() -> tuple[DistributedDataParallel, dict[str, Any]]:
        model, batches = make()
        return DistributedDataParallel(Losses(model)), batches

    def plain(model: nn.Module, batches: dict[str, Any]) -> None:
        model(batches).backward()
        model.zero_grad()

    def ours(method: Any, model: nn.Module, batches: dict[str, Any], early: bool) -> None:
        if not early:
            method.task_gradients._known.clear()  # as in the first step: sent when all tasks are done
        method.backward({task: partial(model, {task: batch}) for task, batch in batches.items()})
        model.zero_grad()

    made[FLOOR] = partial(plain, *replica())
    for name, early in (("PCGrad", True), ("PCGrad, reduced after the last task", False)):
        model, batches = replica()
        made[f"gradaccord {name}"] = partial(ours, gradaccord.PCGrad(model), model, batches, early)
    return made


def sent() -> int:
    """Bytes that have gone over the loopback of this network."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    counts = next(line for line in lines if line.strip().startswith("lo:"))
    return int(counts.split(":")[1].split()[8])


def measure(rounds: int) -> dict[str, dict[str, tuple[list[float], float]]]:
    """Of each model and way: seconds of every round, and bytes of a step."""
    found = {}
    for title, make in MODELS.items():
        ways = arms(make)
        times: dict[str, list[float]] = {name: [] for name in ways}
        traffic: dict[str, list[int]] = {name: [] for name in ways}
        for round_ in range(-2, rounds):
            names = list(ways)
            shift = round_ % len(names)
            for name in names[shift:] + names[:shift]:
                dist.barrier()
                before, start = sent(), time.perf_counter()
                ways[name]()
                dist.barrier()
                if round_ >= 0:
                    times[name].append(time.perf_counter() - start)
                    traffic[name].append(sent() - before)
        found[title] = {name: (times[name], statistics.median(traffic[name])) for name in ways}
    return found


def worker(rank: int, rounds: int, out: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", "tcp://127.0.0.1:29400", rank=rank, world_size=2)
    found = measure(rounds)
    if rank == 0:
        torch.save(found, out)
    dist.barrier()
    dist.destroy_process_group()


def launch(rounds: int, rate: str, out: Path) -> Any:
    """Two processes in a network of their own; what the first of them measured."""
    lines = ["set -e", "ip link set lo up"]
    if rate != "0":
        lines += [f"tc qdisc add dev lo root tbf rate {rate} burst 256kb latency 200ms"]
    start = f"{sys.executable} {__file__} --rounds {rounds} --out {out} --rank"
    lines += [f"{start} 1 &", f"{start} 0", "wait"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(["unshare", "-n", "sh", "-c", "\n".join(lines)], check=True, env=environment)
    return torch.load(out)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rates", nargs="+", default=["0", "1gbit"])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rank", type=int, help="set by this script for its processes")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.rank is not None:
        worker(given.rank, given.rounds, given.out)
        return
    rows = []
    for rate in given.rates:
        out = Path(f"/tmp/processes-{os.getpid()}.pt")
        found = launch(given.rounds, rate, out)
        out.unlink()
        for title, ways in found.items():
            floor, floor_bytes = ways[FLOOR]
            for name, (times, traffic) in ways.items():
                ratio = statistics.median(a / b for a, b in zip(times, floor, strict=True))
                rows.append([
                    "loopback" if rate == "0" else re.sub("bit$", "bit/s", rate).replace("g", " G"),
                    title, name, f"{1000 * statistics.median(times):.0f}", f"{ratio:.2f}",
                    f"{traffic / 1e6:.0f}", f"{traffic / floor_bytes:.2f}",
                ])  # fmt: skip
    header = ["network", "model", "way", "ms a step", "time / floor", "MB sent", "bytes / floor"]
    command = f"benchmarks/processes.py --rounds {given.rounds} --rates {' '.join(given.rates)}"
    about = f"{setting(command, 1)} Two processes, {TASKS} tasks, median of the rounds."
    publish("processes", f"{about}\n\n{markdown(header, rows)}", given.write)


if __name__ == "__main__":
    main()
