"""How cost grows with tasks, weights and batch size; the fit behind `validate`; estimates on paper.

    python benchmarks/growth.py [--rounds 7] [--check] [--write]

An encoder (`nn.TransformerEncoder`, 6 layers, mean pooling, a batch for each task, 32 tokens a row) is
trained by PCGrad and by the measured sum. The floor is one bare backward pass per task. What is above
it is fitted as (READS T + PAIRS T^2) P tau (`gradaccord.train.cost_model`; PAIRS came out as 0).
`--check` compares the estimates of `gradaccord validate` with real steps of three other configurations,
in CPU time, which on one thread of an idle machine is wall time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from loop import configured, write_data
from measure import Arm, cpu_times, markdown, setting
from torch import nn

import gradaccord
from gradaccord.runs.log import Log
from gradaccord.train.cost_model import READS, seconds_per_number
from gradaccord.train.dry_run import estimate
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.problem import load_problem
from gradaccord.train.run import make_accelerator

HERE = Path(__file__).parent
KEPT, PAGE = HERE / "growth.json", HERE.parent / "docs" / "cost.md"
FLOOR = "bare backward passes"
METHODS = {"PCGrad": gradaccord.PCGrad, "Sum, measured": gradaccord.Sum}
SETTINGS = [  # tasks, width, rows of a batch
    *((tasks, 256, 4) for tasks in (2, 4, 8, 16)),
    *((8, width, 4) for width in (64, 128, 384)),
    *((8, 256, rows) for rows in (2, 8, 16)),
]
CHECKED_STEPS = 24


class Encoder(nn.Module):
    """Six transformer layers and a linear head per task; features come in, no embedding table."""

    def __init__(self, tasks: int, width: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=4 * width, activation="gelu", batch_first=True
        )
        self.trunk = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.heads = nn.ModuleList(nn.Linear(width, 3) for _ in range(tasks))

    def loss(self, task: int, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.heads[task](self.trunk(features).mean(1)), labels)


def arms_of(tasks: int, width: int, rows: int) -> tuple[int, dict[str, Arm]]:
    torch.manual_seed(0)
    model = Encoder(tasks, width)
    losses = {
        f"task{t}": partial(model.loss, t, torch.randn(rows, 32, width), torch.randint(0, 3, (rows,)))
        for t in range(tasks)
    }

    def floor() -> None:
        for loss in losses.values():
            model.zero_grad(set_to_none=True)
            loss().backward()

    arms: dict[str, Arm] = {FLOOR: floor}
    for name, method in METHODS.items():
        arms[name] = partial(method(model).backward, losses)
    return sum(p.numel() for p in model.trunk.parameters()), arms


def measured(rounds: int) -> list[dict[str, Any]]:
    """One row a setting: CPU seconds of the floor, and what each method takes above it."""
    rows = []
    for tasks, width, batch in SETTINGS:
        parameters, arms = arms_of(tasks, width, batch)
        times = cpu_times(arms, rounds)
        floor = times[FLOOR]
        row = {"tasks": tasks, "weights": parameters, "rows": batch, "tau": seconds_per_number()}
        row["floor"] = statistics.median(floor)
        for name in METHODS:
            over = [taken - bare for taken, bare in zip(times[name], floor, strict=True)]
            row[name] = statistics.median(over)
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def fit(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """READS, and PAIRS of a term in T^2, fitted to PCGrad's time above the floor; none below zero."""
    from scipy.optimize import nnls

    terms = np.array([[r["tasks"], r["tasks"] ** 2] for r in rows], float)
    found, _ = nnls(terms, np.array([r["PCGrad"] / (r["weights"] * r["tau"]) for r in rows]))
    return float(found[0]), float(found[1])


def check() -> list[list[str]]:
    """Estimated and real seconds per step of three configurations, and their difference."""
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("time.perf_counter", time.process_time),  # of the estimate and of the steps
    ):
        write_data(Path(folder))
        configurations = {
            "MiniLM, three tasks, PCGrad": configured(3, Path(folder), 1, "pcgrad"),
            "MiniLM, one task, DotProd": configured(1, Path(folder), 1, "dotprod"),
            "MiniLM, two tasks, Sequential Reptile": configured(
                2, Path(folder), 1, "sequential_reptile"
            ),
        }
        for name, config in configurations.items():
            told = estimate(config).step_seconds
            with tempfile.TemporaryDirectory() as out:
                real = real_seconds(config, Path(out))
            rows.append([name, f"{told:.3f}", f"{real:.3f}", f"{100 * (told / real - 1):+.0f} %"])
    return rows


def real_seconds(config: Any, folder: Path) -> float:
    """Mean seconds of training steps, without the first two."""
    loop = TrainingLoop(config, load_problem(config), folder, make_accelerator(config))
    loop.begin(len(loop.phases) - 1)
    log = Log(None)
    for _ in range(2):
        loop.take_step(log)
    began = time.perf_counter()
    for _ in range(CHECKED_STEPS):
        loop.take_step(log)
    return (time.perf_counter() - began) / CHECKED_STEPS


def sent_numbers(parameters: int, reductions: float, processes: int) -> float:
    """Numbers that each process sends in a step: a ring all-reduce of every reduced gradient.

    reductions: one for a summed loss, one per task where gradients are combined.
    """
    return 2 * (processes - 1) / processes * parameters * reductions


def sent_sharded(parameters: int, passes: float, reductions: float, processes: int) -> float:
    """The same under FSDP2: weights are gathered twice per pass, each gradient is scattered once."""
    return (processes - 1) / processes * parameters * (2 * passes + reductions)


def on_paper(tasks: int = 4) -> list[list[str]]:
    """Gigabytes kept and sent a step and GPU, in bf16, sharded by FSDP2: arithmetic, not measured."""
    ways = {  # passes over the model, gradients scattered, copies kept beside the gradient
        "plain, one joint batch": (1, 1, 0.0),
        f"PCGrad, {tasks} tasks": (tasks, tasks, tasks - 1.0),
        f"PCGrad, {tasks} tasks, sketch": (2 * tasks, tasks, tasks / 16),
        "Sequential Reptile, a step": (1, 1, 1.0),
        "DotProd by differences, a pair": (3, 3, 2.0),
    }
    rows = []
    for weights in (7e9, 70e9):
        for gpus in (8, 1024):
            for way, (passes, reductions, copies) in ways.items():
                kept = 2 * copies * weights / gpus / 1e9
                sent = 2 * sent_sharded(int(weights), passes, reductions, gpus) / 1e9
                rows.append([f"{weights / 1e9:.0f} B", str(gpus), way, f"{kept:,.2f}", f"{sent:,.0f}"])
    return rows


def ddp(tasks: int = 4, weights: int = 12_600_000) -> list[list[str]]:
    """Megabytes that each process sends a step under DDP, in fp32."""
    return [
        [str(n), *(f"{4 * sent_numbers(weights, r, n) / 1e6:,.0f}" for r in (1, tasks))]
        for n in (2, 8, 1024)
    ]


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = {
        "tasks": [r for r in rows if r["rows"] == 4 and r["weights"] == rows[0]["weights"]],
        "weights": [r for r in rows if r["rows"] == 4 and r["tasks"] == 8],
        "rows": [r for r in rows if r["tasks"] == 8 and r["weights"] == rows[0]["weights"]],
    }
    labels = {"tasks": "tasks", "weights": "shared weights, millions", "rows": "rows of a batch"}
    drawing, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
    for axis, (key, own) in zip(axes, panels.items(), strict=True):
        own = sorted(own, key=lambda r: r[key])
        at = [r[key] / (1e6 if key == "weights" else 1) for r in own]
        for name, mark in zip(METHODS, "os", strict=True):
            axis.plot(at, [1 + r[name] / r["floor"] for r in own], marker=mark, label=name)
        model = [1 + READS * r["tasks"] * r["weights"] * r["tau"] / r["floor"] for r in own]
        axis.plot(at, model, "--", color="grey", label="model")
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_xlabel(labels[key])
    axes[0].set_ylabel("CPU time / bare backward passes")
    axes[0].legend(frameon=False)
    drawing.savefig(path, dpi=110)


def write_page(rows: list[dict[str, Any]], checked: list[list[str]] | None, command: str) -> None:
    """Fill the marked parts of docs/cost.md."""
    reads, pairs = fit(rows)
    curves = markdown(
        ["tasks", "shared weights", "rows", "floor, ms", *(f"{m} / floor" for m in METHODS)],
        [
            [str(r["tasks"]), f"{r['weights'] / 1e6:.1f} M", str(r["rows"]), f"{1e3 * r['floor']:.0f}",
             *(f"{1 + r[m] / r['floor']:.3f}" for m in METHODS)]
            for r in rows
        ],
    )  # fmt: skip
    fitted = f"Fitted: READS = {reads:.2f}, PAIRS = {pairs:.3f}."
    checks = markdown(["configuration", "estimated, s", "measured, s", "off by"], checked or [])
    parts = {
        "curves": f"{setting(command, 1)}\n\n{curves}\n\n{fitted}",
        "check": f"{setting('benchmarks/growth.py --check', 1)} CPU time.\n\n{checks}"
        if checked
        else "Not measured yet.",
        "ddp": markdown(["processes", "summed loss, MB", "4 tasks apart, MB"], ddp()),
        "paper": markdown(["weights", "GPUs", "step", "kept, GB", "sent, GB"], on_paper()),
    }
    text = PAGE.read_text()
    for name, part in parts.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, rest = text.split(start)
        text = f"{head}{start}{part}\n{end}{rest.split(end)[1]}"
    PAGE.write_text(text)
    figure(rows, PAGE.parent / "figures" / "cost-growth.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="only the three configurations")
    parser.add_argument("--write", action="store_true", help="write docs/cost.md from saved results")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if given.check:
        kept["check"] = check()
        print(markdown(["configuration", "estimated, s", "measured, s", "off by"], kept["check"]))
    elif not given.write:
        kept |= {
            "rows": measured(given.rounds),
            "command": f"benchmarks/growth.py --rounds {given.rounds}",
        }
        print("READS, PAIRS =", fit(kept["rows"]))
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    if given.write:
        write_page(kept["rows"], kept.get("check"), kept["command"])


if __name__ == "__main__":
    main()
