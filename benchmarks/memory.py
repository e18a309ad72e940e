"""Methods that keep less than all task gradients: memory, time, and errors of their weights.

    python benchmarks/memory.py --data DIR --part peak [--tasks 8]
    python benchmarks/memory.py --data DIR --part time [--tasks 8] [--rounds 3]
    python benchmarks/memory.py --data DIR --part weights [--tasks 8] [--steps 4]
    python benchmarks/memory.py --data DIR --part features [--steps 20]

MiniLM on real texts: sentiment, paraphrases and similarity, each task with its own head and batches;
with more tasks than sets, a set is used again with other rows. The floor is a bare backward pass for
each task. For features, one batch under several heads: pairs of overlaid clothes, where two heads name
the left and the right piece and two more tell whether it is worn on feet; and the three texts in one
batch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
from measure import Arm, cpu_times, markdown, peak_memory, publish, ratios, setting
from rich.console import Console
from rich.progress import Progress
from torch import nn
from torch.nn.functional import cross_entropy, pad

import gradaccord
from gradaccord.core.parameters import Unit
from gradaccord.data.images.idx import read_idx_splits
from gradaccord.methods.combine.combination import Combination, Measured, normalizers
from gradaccord.methods.combine.memory import Memory
from gradaccord.train.config_file import check_config
from gradaccord.train.phase import batches_of
from gradaccord.train.problem import load_problem

FLOOR, PLAIN, OURS = "bare backward passes (floor)", "plain sum", "PCGrad, memory="
WAYS = [FLOOR, PLAIN, *(OURS + memory for memory in ("full", "half", "cpu", "sketch"))]
UNITS: tuple[Unit, ...] = ("model", "layer")
FEET = torch.tensor([5, 7, 9])  # sandals, sneakers, boots
COSINE = "largest error of a cosine"
LARGEST = "largest error of a cosine, sketched by "
BATCH = 16
PAIRS = {"pair": "cross"}
DATA: list[dict[str, Any]] = [
    {"data": "sst"},
    {"data": "quora", **PAIRS},
    {"data": "sts", **PAIRS},
]
METHODS: dict[str, Callable[..., Combination]] = {
    "PCGrad": gradaccord.PCGrad,
    "GradVac": partial(gradaccord.GradVac, beta=0.1),
    "GradVac, per layer": partial(gradaccord.GradVac, beta=0.1, granularity="layer"),
    "ConFIG": gradaccord.ConFIG,
    "GradNorm": gradaccord.GradNorm,
    "normalised sum": partial(gradaccord.Sum, normalize=True),
    "CAGrad": partial(gradaccord.TorchJD, weighting="CAGrad", c=0.5),
    "MGDA": partial(gradaccord.TorchJD, weighting="MGDA"),
    "UPGrad": partial(gradaccord.TorchJD, weighting="UPGrad"),
}


def tasks_on(data: str, tasks: int) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """MiniLM with its heads and tasks, and a function that draws a batch of each."""
    limit = {"train": 2000, "dev": 20, "test": 20}
    listed = {f"task{i}": DATA[i % len(DATA)] | {"limit": limit} for i in range(tasks)}
    config = check_config({"model": "minilm", "tasks": listed, "data_folder": data})
    torch.manual_seed(0)
    found = load_problem(config)
    batches = {
        task: batches_of(found.prepared[task], BATCH, 7919 * i) for i, task in enumerate(found.trained)
    }

    def draw() -> dict[str, Any]:
        return {t: found.prepared[t].encoded["train"].batch(next(own)) for t, own in batches.items()}

    return found, draw


def problem(data: str, tasks: int) -> tuple[nn.Module, Callable[[], dict[str, Callable[[], Any]]]]:
    """MiniLM with its heads, and a function that draws a step's losses."""
    found, drawn = tasks_on(data, tasks)

    def loss(task: str, batch: Any) -> torch.Tensor:
        value: torch.Tensor = found.prepared[task].task.loss(found.model(task, batch), batch)[0]
        return value

    return found.model.train(), lambda: {t: partial(loss, t, batch) for t, batch in drawn().items()}


def arm(name: str, data: str, tasks: int, threads: int) -> Arm:
    """One way to do a step; always the same batches."""
    torch.set_num_threads(threads)
    model, draw = problem(data, tasks)
    return way(name, model, draw())


def way(name: str, model: nn.Module, losses: dict[str, Callable[[], Any]]) -> Arm:
    """One way to do a step of a model, whose weights stay as they are."""

    def floor() -> None:
        for loss in losses.values():
            loss().backward()
            model.zero_grad()

    def plain_sum() -> None:
        for loss in losses.values():
            loss().backward()
        model.zero_grad()

    if name == FLOOR:
        return floor
    if name == PLAIN:
        return plain_sum
    method = gradaccord.PCGrad(model, memory=name.removeprefix(OURS))  # type: ignore[arg-type]

    def step() -> None:
        method.backward(losses)
        model.zero_grad()

    return step


def peaks(data: str, tasks: int, threads: int) -> str:
    """Peak memory over the resting model, and in gradients: the floor holds one at a time."""
    size = sum(p.numel() * p.element_size() for p in problem(data, tasks)[0].parameters()) / 2**20
    found = {}
    with Progress(console=Console(stderr=True)) as progress:
        for name in progress.track(WAYS, description="memory"):
            found[name] = peak_memory(arm, name, data, tasks, threads)
    rows = [
        [name, f"{peak:.0f}", f"{(peak - found[FLOOR]) / size + 1:.2f}"] for name, peak in found.items()
    ]
    return markdown(["way", "peak memory over base, MB", f"gradients (P = {size:.0f} MB)"], rows)


def times(data: str, tasks: int, rounds: int, threads: int) -> str:
    """CPU time over the floor's."""
    torch.set_num_threads(threads)
    model, draw = problem(data, tasks)
    losses = draw()
    arms = {name: way(name, model, losses) for name in WAYS}  # one model: where it lies makes 5 %
    found = cpu_times(arms, rounds)
    rows = [
        [name, f"{median(found[name]):.2f}", f"{ratio:.2f}"]
        for name, ratio in ratios(found, FLOOR).items()
    ]
    return markdown(["way", "CPU seconds a step", "CPU time / floor"], rows)


class Recorder(Combination):
    """The plain sum, which remembers what it measured."""

    measured: Measured

    def weigh(self, measured: Measured) -> torch.Tensor:
        self.measured = measured
        return torch.ones(measured.grams.shape[:2], dtype=torch.float64)


def weights_of(method: Combination, measured: Measured) -> torch.Tensor:
    """The weights of a method from what was measured, for the groups that are shared."""
    assert method.task_order(list(measured.tasks)) == list(measured.tasks)
    factors = normalizers(measured.grams) if method.normalize else torch.ones(len(measured.tasks))
    grams = measured.grams * factors[:, None] * factors[None, :]
    return (method.weigh(replace(measured, grams=grams)) * factors)[measured.shared]


def weight_errors(data: str, tasks: int, steps: int, threads: int) -> str:
    """The methods' weights on the same batches with less memory, against those with whole gradients."""
    torch.set_num_threads(threads)
    model, draw = problem(data, tasks)
    ways: tuple[Memory, ...] = ("full", "half", "sketch")
    methods = {(name, way): make(model, seed=1) for name, make in METHODS.items() for way in ways}
    recorders = {
        (unit, way): Recorder(model, granularity=unit, memory=way) for unit in UNITS for way in ways
    }
    errors: dict[tuple[str, str], list[float]] = {}
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("weights", total=steps * len(recorders))
        for _ in range(steps):
            given = draw()
            random = torch.get_rng_state()
            cosines = {}
            for (unit, way), recorder in recorders.items():
                torch.set_rng_state(random)
                cosines[unit, way] = recorder.backward(given).cosines
                wrong = float((cosines[unit, way] - cosines[unit, "full"]).abs().max())
                errors.setdefault((f"{LARGEST}{unit}", way), []).append(wrong)
                progress.advance(bar)
            for name in METHODS:
                found = {}
                for way in ways:
                    method = methods[name, way]
                    unit = UNITS[len(method.partition.groups) > 1]
                    found[way] = weights_of(method, recorders[unit, way].measured)
                    wrong = float((found[way] - found["full"]).norm() / found["full"].norm())
                    errors.setdefault((name, way), []).append(wrong)
    rows = []
    for name in dict.fromkeys(name for name, _ in errors):
        row = [name]
        for way in ways[1:]:
            middle, most = median(errors[name, way]), max(errors[name, way])
            row.append(f"{middle:.5f} ({most:.5f})")
        rows.append(row)
    return markdown([f"relative error of weights: median of {steps} steps (largest)", *ways[1:]], rows)


class Clothes(nn.Module):
    """A convolutional trunk on pairs of overlaid pictures, and four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            *(nn.Conv2d(1, 16, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(16, 32, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(32 * 36, 100), nn.ReLU()),
        )
        outputs = {"left": 10, "right": 10, "left on feet": 2, "right on feet": 2}
        self.heads = nn.ModuleDict({task: nn.Linear(100, n) for task, n in outputs.items()})

    def losses(self, images: torch.Tensor, labels: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        hidden = self.trunk(images)
        return {t: cross_entropy(head(hidden), labels[t]) for t, head in self.heads.items()}


def clothes(data: str) -> tuple[nn.Module, Callable[[], Any]]:
    """The net, and a function that draws a shared batch of 64 pairs."""
    images, labels = read_idx_splits(Path(data) / "fashion_mnist")["train"]
    torch.manual_seed(0)
    model = Clothes()

    def draw() -> Any:
        pairs = torch.randint(len(images), (2, 64))
        canvas = torch.zeros(64, 1, 36, 36)
        canvas[:, :, :28, :28] = images[pairs[0]] / 255
        canvas[:, :, 8:, 8:] = torch.maximum(canvas[:, :, 8:, 8:], images[pairs[1]] / 255)
        named = dict(zip(("left", "right"), labels[pairs], strict=True))
        feet = {f"{side} on feet": torch.isin(own, FEET).long() for side, own in named.items()}
        return partial(model.losses, canvas, named | feet)

    return model, draw


def trio(data: str) -> tuple[nn.Module, Callable[[], Any]]:
    """MiniLM on the texts of three tasks in one batch, of which each head reads its own."""
    found, drawn = tasks_on(data, 3)
    model = found.model.train()

    def losses(batches: dict[str, Any]) -> dict[str, torch.Tensor]:
        inputs = ("input_ids", "attention_mask", "token_type_ids")
        longest = max(b["input_ids"].shape[1] for b in batches.values())
        joined = {
            key: torch.cat([pad(b[key], (0, longest - b[key].shape[1])) for b in batches.values()])
            for key in inputs
            if all(key in b for b in batches.values())
        }
        pooled, values, start = model.trunk(joined).pooled, {}, 0
        for task, batch in batches.items():
            own = pooled[start : start + len(batch["input_ids"])]
            start += len(own)
            output = model.head(task)(lambda _, own=own: SimpleNamespace(pooled=own), batch)
            values[task] = found.prepared[task].task.loss(output, batch)[0]
        return values

    return model, lambda: partial(losses, drawn())


def features(data: str, steps: int, threads: int) -> str:
    """Weights by gradients at the representation against exact ones, which are stepped on."""
    torch.set_num_threads(threads)
    rows = []
    for title, (model, draw) in {"overlaid clothes": clothes(data), "three texts": trio(data)}.items():
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3 if title != "three texts" else 2e-5)
        names = [name for name in METHODS if name not in ("GradNorm", "GradVac, per layer")]
        methods = {
            (name, decide): METHODS[name](model, seed=1) for name in names for decide in ("g", "f")
        }
        exact, near = Recorder(model), Recorder(model, decide="features")
        wrong: dict[str, list[float]] = {name: [] for name in [COSINE, *names]}
        spent: dict[str, list[float]] = {"exact": [], "features": [], "plain": []}
        for _ in range(steps):
            call = draw()
            random = torch.get_rng_state()
            cosines = {}
            for name, recorder in (("features", near), ("exact", exact)):
                torch.set_rng_state(random)
                start = time.process_time()
                cosines[name] = recorder.backward(call).cosines
                spent[name].append(time.process_time() - start)
            wrong[COSINE].append(float((cosines["features"] - cosines["exact"]).abs().max()))
            for name in names:
                right = weights_of(methods[name, "g"], exact.measured)
                found = weights_of(methods[name, "f"], near.measured)
                wrong[name].append(float((found - right).norm() / right.norm()))
            optimizer.step()
            optimizer.zero_grad()
            start = time.process_time()
            sum(call().values()).backward()
            spent["plain"].append(time.process_time() - start)
            optimizer.zero_grad()
        seconds = {name: median(values) for name, values in spent.items()}
        rows += [[title, name, f"{median(own):.3f} ({max(own):.3f})"] for name, own in wrong.items()]
        for name in ("features", "exact"):
            rows.append(
                [title, f"CPU time, {name} / plain sum", f"{seconds[name] / seconds['plain']:.2f}"]
            )
    return markdown(["one batch", "", f"median of {steps} steps (largest)"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--part", choices=("peak", "time", "weights", "features"), required=True)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the timing")
    parser.add_argument("--steps", type=int, default=4, help="steps over which errors are measured")
    parser.add_argument("--threads", type=int, default=1, help="waiting threads spin: CPU time grows")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/README.md")
    given = parser.parse_args()
    if given.part == "peak":
        table = peaks(given.data, given.tasks, given.threads)
        options = f"--tasks {given.tasks}"
    elif given.part == "time":
        table = times(given.data, given.tasks, given.rounds, given.threads)
        options = f"--tasks {given.tasks} --rounds {given.rounds}"
    elif given.part == "weights":
        table = weight_errors(given.data, given.tasks, given.steps, given.threads)
        options = f"--tasks {given.tasks} --steps {given.steps}"
    else:
        table = features(given.data, given.steps, given.threads)
        options = f"--steps {given.steps}"
    command = f"benchmarks/memory.py --data DIR --part {given.part} {options}"
    publish(f"memory {given.part}", f"{setting(command, given.threads)}\n\n{table}", given.write)


if __name__ == "__main__":
    main()
