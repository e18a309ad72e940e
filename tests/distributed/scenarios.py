"""Small multi-task problems, trained by the same code alone, under DDP and under FSDP2."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import nn

import gradaccord

WORLD = 2
TASKS = ("a", "b", "c")
ITEMS = 12
STEPS = 5
WIDTH = 6

# Which items of a task's batch each process gets, as one slice per micro-batch.
Split = tuple[list[slice], list[slice]]
HALVES: Split = ([slice(0, 6)], [slice(6, 12)])
UNEQUAL: Split = ([slice(0, 9)], [slice(9, 12)])
MICRO: Split = ([slice(0, 4), slice(4, 5)], [slice(5, 12)])
EQUALLY_MANY_MICRO: Split = ([slice(0, 4), slice(4, 5)], [slice(5, 6), slice(6, 12)])
FIRST_ONLY: Split = ([slice(0, 12)], [])
SECOND_ONLY: Split = ([], [slice(0, 5), slice(5, 12)])


def leave() -> NoReturn:
    """End a process of a launch when all are done.

    At once: models still hold the process group, whose threads can abort an interpreter that is
    taken down around them, once in some hundred launches.
    """
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Net(nn.Module):
    """A trunk and a head per task; with `rows`, the input goes through an embedding table."""

    def __init__(
        self, rows: int = 0, sparse: bool = False, norm: bool = False, scalar: bool = False
    ) -> None:
        super().__init__()
        # Under FSDP2 one of two processes has no part of a single row.
        self.gain = nn.Parameter(torch.ones(1 if scalar else (1, 16)))
        self.table = nn.Embedding(rows, WIDTH, sparse=sparse) if rows else None
        self.trunk = nn.Sequential(
            nn.Linear(WIDTH, 16),
            nn.BatchNorm1d(16) if norm else nn.Identity(),
            nn.Tanh(),
            nn.Linear(16, 16),
            nn.Tanh(),
        )
        self.heads = nn.ModuleDict({task: nn.Linear(16, 1) for task in TASKS})

    def forward(self, x: torch.Tensor, task: str | None = None) -> Any:
        if self.table is not None:
            x = self.table(x).mean(1)
        hidden = self.gain * self.trunk(x)
        if task is not None:
            return self.heads[task](hidden)
        return {name: head(hidden) for name, head in self.heads.items()}


ADAMW = partial(torch.optim.AdamW, lr=0.02)


@dataclass(frozen=True)
class Scenario:
    method: Callable[..., Any]
    splits: dict[str, Split] = field(default_factory=lambda: dict.fromkeys(TASKS, HALVES))
    counted: bool = False  # the losses return (mean, number of items)
    shared: bool = False  # one callable for all tasks
    net: dict[str, Any] = field(default_factory=dict)
    words: int = 3  # of each item, with an embedding table
    dtype: torch.dtype = torch.float64
    optimizer: Callable[..., Any] = ADAMW
    ddp: dict[str, Any] = field(default_factory=dict)
    plain_first: bool = False  # a step of plain training comes first, and its `.grad` is left there


SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
SUM = gradaccord.Sum
PCGRAD = partial(gradaccord.PCGrad, seed=3)
GRADVAC = partial(gradaccord.GradVac, beta=0.2, seed=3)
LAYERS = partial(gradaccord.GradVac, beta=0.2, seed=3, granularity="layer")
GRADNORM = partial(gradaccord.GradNorm, lr=0.2)
UNCERTAINTY = partial(gradaccord.UncertaintyWeighting, lr=0.5)
DWA = partial(gradaccord.DWA, window=1, temperature=0.2)
RLW = partial(gradaccord.RLW, seed=3)
FAMO = partial(gradaccord.FAMO, lr=0.2)
LOSS_SCALE = partial(gradaccord.LossScale, decay=0.5)
TCHEBYCHEFF = partial(gradaccord.SmoothTchebycheff, mu=0.3)
FEATURES = partial(GRADVAC, decide="features")
CONSTANT = partial(gradaccord.TorchJD, weighting="Constant", weights=[1, 2, 5])  # by the task's place


def sketched(make: Callable[..., Any]) -> Callable[..., Any]:
    """A method with sketches, of these small parameters too."""

    def build(model: nn.Module, **options: Any) -> Any:
        method = make(model, memory="sketch", **options)
        method.task_gradients.small = 4
        return method

    return build


COUNTED: dict[str, Any] = {"splits": dict.fromkeys(TASKS, UNEQUAL), "counted": True}
ACCUMULATED: dict[str, Any] = {"splits": {"a": MICRO, "b": UNEQUAL, "c": MICRO}, "counted": True}
MISSING: dict[str, Any] = {
    "splits": {"a": HALVES, "b": SECOND_ONLY, "c": FIRST_ONLY},
    "counted": True,
}
TABLE: dict[str, Any] = {"net": {"rows": 4096}}
SPARSE: dict[str, Any] = {
    "net": {"rows": 4096, "sparse": True},
    "optimizer": partial(torch.optim.SGD, lr=0.1),
}
# 9 of 12 items have more than half of the rows, 3 have less: one process sends it dense.
HALF_DENSE: dict[str, Any] = {"net": {"rows": 2048}, "words": 200} | COUNTED

SCENARIOS = {
    "Sum": Scenario(SUM),
    "PCGrad": Scenario(PCGRAD),
    "GradVac": Scenario(GRADVAC),
    "GradVac by layer": Scenario(LAYERS),
    "GradNorm": Scenario(GRADNORM),
    "constant weights by place": Scenario(CONSTANT),
    "ConFIG": Scenario(gradaccord.ConFIG),
    "PCGrad, normalised": Scenario(partial(PCGRAD, normalize=True)),
    "uncertainty weighting": Scenario(UNCERTAINTY),
    "DWA": Scenario(DWA),
    "RLW": Scenario(RLW),
    "FAMO, unequal item counts": Scenario(FAMO, **COUNTED),
    "FAMO, one batch under all heads": Scenario(FAMO, shared=True),
    "loss scale, one batch under all heads, counted": Scenario(LOSS_SCALE, shared=True, **COUNTED),
    "smooth Tchebycheff, one batch under all heads, float32": Scenario(
        TCHEBYCHEFF, shared=True, dtype=torch.float32, optimizer=SGD, **COUNTED
    ),
    "PCGrad, float32": Scenario(PCGRAD, dtype=torch.float32, optimizer=SGD),
    "GradVac by layer, float32": Scenario(LAYERS, dtype=torch.float32, optimizer=SGD),
    # Gradients of a single number are parallel or opposed, and may cancel: rounding must not decide.
    "a layer of one number": Scenario(LAYERS, net={"scalar": True}, optimizer=SGD),
    "a layer of one number, float32": Scenario(
        LAYERS, net={"scalar": True}, dtype=torch.float32, optimizer=SGD
    ),
    "unequal item counts": Scenario(LAYERS, **COUNTED),
    "one batch under all heads": Scenario(PCGRAD, shared=True),
    "one batch under all heads, counted": Scenario(LAYERS, shared=True, **COUNTED),
    "host memory": Scenario(partial(LAYERS, memory="cpu"), **COUNTED),
    "host memory, one batch under all heads": Scenario(partial(PCGRAD, memory="cpu"), shared=True),
    "host memory, embedding table": Scenario(partial(GRADVAC, memory="cpu"), **TABLE),
    "embedding table": Scenario(GRADVAC, **TABLE),
    "embedding table, float32": Scenario(PCGRAD, dtype=torch.float32, **(TABLE | {"optimizer": SGD})),
}

DDP_SCENARIOS = SCENARIOS | {
    "accumulation": Scenario(PCGRAD, **ACCUMULATED),
    "accumulation, float32": Scenario(LAYERS, dtype=torch.float32, optimizer=SGD, **ACCUMULATED),
    "accumulation under all heads": Scenario(
        PCGRAD, shared=True, counted=True, splits=dict.fromkeys(TASKS, MICRO)
    ),
    "a task missing on a process": Scenario(PCGRAD, **MISSING),
    "a task missing on a process, GradVac": Scenario(LAYERS, **MISSING),
    "accumulation, loss scale": Scenario(LOSS_SCALE, **ACCUMULATED),
    "accumulation under all heads, FAMO": Scenario(
        FAMO, shared=True, counted=True, splits=dict.fromkeys(TASKS, MICRO)
    ),
    "a task missing on a process, FAMO": Scenario(FAMO, **MISSING),
    "sparse embedding gradients, one batch under all heads": Scenario(
        LOSS_SCALE, shared=True, **SPARSE
    ),
    "static graph, one batch under all heads": Scenario(FAMO, shared=True, ddp={"static_graph": True}),
    "gradients as bucket views": Scenario(
        PCGRAD, ddp={"gradient_as_bucket_view": True}, plain_first=True
    ),
    "bucket views and accumulation": Scenario(
        GRADVAC, ddp={"gradient_as_bucket_view": True}, **ACCUMULATED
    ),
    "static graph": Scenario(PCGRAD, ddp={"static_graph": True}),
    "unused parameters looked for": Scenario(PCGRAD, ddp={"find_unused_parameters": True}),
    "sparse embedding gradients": Scenario(PCGRAD, **SPARSE),
    # A sum of sketches is the sketch of the sum: equal to the joined batch to the last digits.
    "sketches": Scenario(sketched(LAYERS), **COUNTED),
    "sketches, float32": Scenario(sketched(PCGRAD), dtype=torch.float32, optimizer=SGD),
    "sketches, accumulation": Scenario(sketched(GRADVAC), **ACCUMULATED),
    "sketches, one batch under all heads": Scenario(sketched(PCGRAD), shared=True, **COUNTED),
    "sketches, accumulation under all heads": Scenario(
        sketched(LAYERS), shared=True, counted=True, splits=dict.fromkeys(TASKS, MICRO)
    ),
    "sketches, a task missing on a process": Scenario(sketched(PCGRAD), **MISSING),
    "sketches, embedding table": Scenario(sketched(GRADVAC), **TABLE),
    "sketches, sparse embedding gradients": Scenario(sketched(PCGRAD), **SPARSE),
    "sketches, table dense on one process": Scenario(sketched(PCGRAD), **HALF_DENSE),
    "sketches, bucket views": Scenario(
        sketched(PCGRAD), ddp={"gradient_as_bucket_view": True}, plain_first=True
    ),
    "sketches, static graph": Scenario(sketched(PCGRAD), ddp={"static_graph": True}),
    "features": Scenario(FEATURES, shared=True),
    "features, unequal item counts": Scenario(FEATURES, shared=True, **COUNTED),
    "features, embedding table": Scenario(FEATURES, shared=True, **TABLE),
    "table rows, dense on one process": Scenario(PCGRAD, **HALF_DENSE),
}

FSDP_ACCUMULATED: dict[str, Any] = {
    "splits": {"a": EQUALLY_MANY_MICRO, "b": UNEQUAL, "c": EQUALLY_MANY_MICRO},
    "counted": True,
}
FSDP_SCENARIOS = SCENARIOS | {
    "accumulation": Scenario(PCGRAD, **FSDP_ACCUMULATED),
    "accumulation, GradVac": Scenario(LAYERS, **FSDP_ACCUMULATED),
    "accumulation under all heads": Scenario(
        PCGRAD, shared=True, counted=True, splits=dict.fromkeys(TASKS, EQUALLY_MANY_MICRO)
    ),
}

# Each process sketches its own part: other weights than on one process, the same on both. With the
# plain sum the weights are known, and the second pass is seen alone.
FSDP_SKETCHES = {
    "sum": Scenario(sketched(SUM), **COUNTED),
    "sum, accumulation": Scenario(sketched(SUM), **FSDP_ACCUMULATED),
    "sum, one batch under all heads": Scenario(sketched(SUM), shared=True),
    "sum, embedding table": Scenario(sketched(SUM), **TABLE),
    "PCGrad": Scenario(sketched(PCGRAD), **COUNTED),
    "GradVac by layer": Scenario(sketched(LAYERS), shared=True),
}

HALF = Scenario(partial(PCGRAD, memory="half"), **COUNTED)
LONG = Scenario(LAYERS, dtype=torch.float32)
NORM = Scenario(PCGRAD, net={"norm": True})
FRAGILE_PASS = Scenario(FAMO, shared=True, **COUNTED)
OWN_STATISTICS = Scenario(PCGRAD, net={"norm": True}, ddp={"broadcast_buffers": False})
FRAGILE = Scenario(GRADVAC, net={"norm": True}, **COUNTED)
HYBRID = Scenario(LAYERS, **FSDP_ACCUMULATED)
SCALED = Scenario(LAYERS, dtype=torch.float32, optimizer=SGD)
WRAPPED = Scenario(LAYERS, **ACCUMULATED)


def net(scenario: Scenario) -> Net:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    model = Net(**scenario.net).to(scenario.dtype)
    torch.set_default_dtype(before)
    return model


def batch(scenario: Scenario, step: int, task: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The joined batch of a task; under all heads the tasks share their inputs."""
    number = 0 if scenario.shared else 1 + TASKS.index(task)
    generator = torch.Generator().manual_seed(100 * step + number)
    x = torch.randn(ITEMS, WIDTH, generator=generator, dtype=torch.float64).to(scenario.dtype)
    rows = scenario.net.get("rows", 0)
    if rows:
        x = torch.randint(rows, (ITEMS, scenario.words), generator=generator)
    generator.manual_seed(100 * step + 50 + TASKS.index(task))
    y = torch.randn(ITEMS, 1, generator=generator, dtype=torch.float64).to(scenario.dtype)
    return x, y + math.sin(TASKS.index(task))


def loss(scenario: Scenario, model: nn.Module, step: int, task: str, part: slice) -> Any:
    x, y = batch(scenario, step, task)
    value = nn.functional.mse_loss(model(x[part], task), y[part])
    return (value, len(y[part])) if scenario.counted else value


def shared_loss(scenario: Scenario, model: nn.Module, step: int, part: slice) -> dict[str, Any]:
    out = model(batch(scenario, step, "a")[0][part])
    values: dict[str, Any] = {}
    for task in TASKS:
        y = batch(scenario, step, task)[1][part]
        value = nn.functional.mse_loss(out[task], y)
        values[task] = (value, len(y)) if scenario.counted else value
    return values


def losses(scenario: Scenario, model: nn.Module, step: int, rank: int | None) -> Any:
    """What `backward` is given on a process, or, with None, on one process with the joined batch."""
    whole = [slice(0, ITEMS)]
    if scenario.shared:
        parts = whole if rank is None else scenario.splits["a"][rank]
        return [partial(shared_loss, scenario, model, step, part) for part in parts]
    given = {}
    for task in TASKS[::-1] if rank == 1 else TASKS:  # in another order on each process
        parts = whole if rank is None else scenario.splits[task][rank]
        if parts:
            given[task] = [partial(loss, scenario, model, step, task, part) for part in parts]
    return given


@dataclass
class Run:
    """What is left of a training run: on one process, or on one of several."""

    start: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]
    gradient: dict[str, torch.Tensor]  # of the last step
    state: dict[str, Any]
    losses: torch.Tensor  # [STEPS, T], tasks by name
    grams: torch.Tensor  # [STEPS, T, T]
    norms: list[float]  # of the gradient before clipping, where it was clipped


def train(
    scenario: Scenario,
    model: nn.Module,
    rank: int | None,
    engine: Any = None,
    optimizer: Any = None,
    clip: float | None = None,
    steps: int = STEPS,
) -> Run:
    """Train for a few steps; `model` may be wrapped or sharded."""
    torch.manual_seed(17 if rank is None else rank)  # no method may draw from the global generator
    method = scenario.method(model, engine=engine)
    optimizer = optimizer or scenario.optimizer(model.parameters())
    if scenario.plain_first:
        part = slice(0, ITEMS) if rank is None else scenario.splits["a"][rank][0]
        sum(shared_loss(scenario, model, STEPS, part).values()).backward()
        if rank is not None:  # what stands in `.grad` is views of one bucket
            assert len({p.grad.untyped_storage().data_ptr() for p in model.parameters()}) == 1
        optimizer.step()
    start = weights_of(model)
    seen: list[Any] = []
    norms: list[float] = []
    for step in range(steps):
        report = method.backward(losses(scenario, model, step, rank))
        order = [report.tasks.index(task) for task in sorted(report.tasks)]
        seen.append((report.losses[order], report.gram[order][:, order]))
        if clip is not None:
            norms.append(float(whole(torch.nn.utils.clip_grad_norm_(model.parameters(), clip))))
        gradient = gradient_of(model)
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
    return Run(
        start=start,
        weights=weights_of(model),
        gradient=gradient,
        state=method.state_dict(),
        losses=torch.stack([given for given, _ in seen]),
        grams=torch.stack([gram for _, gram in seen]),
        norms=norms,
    )


SENT = Scenario(LAYERS, dtype=torch.float32, net={"rows": 4096}, optimizer=SGD, **ACCUMULATED)


def varying_gradients(model: nn.Module, rank: int | None) -> list[dict[str, torch.Tensor]]:
    """The gradients of five steps whose tasks, and what they reach, change from step to step."""
    scenario, method, found = Scenario(PCGRAD), PCGRAD(model), []
    processes = (0, 1) if rank is None else (rank,)
    for step, (tasks, further) in enumerate(
        [("ab", {}), ("ab", {1: "c"}), ("bca", {0: "b"}), ("c", {}), ("ab", {0: "c", 1: "c"})]
    ):

        def call(task: str, step: int = step, further: dict[int, str] = further) -> Any:
            parts = []
            for process in processes:
                half = HALVES[process][0]
                value = loss(scenario, model, step, task, half)
                if process in further:  # this process's items reach another head, too
                    value = value + loss(scenario, model, step, further[process], half)
                parts.append(value)
            return torch.stack(parts).mean()

        method.backward({task: partial(call, task) for task in tasks})
        found.append(gradient_of(model))
        model.zero_grad()
    return found


FAILURES = {
    "raises before its forward pass": lambda call: lambda: 1 / 0,
    "raises after its forward pass": lambda call: lambda: (call(), 1 / 0),
    "gives a loss of NaN": lambda call: lambda: (call()[0] * float("nan"), 3),
    "gives a loss that is no scalar": lambda call: lambda: (call()[0].expand(2), 3),
    "has no task at all": None,
}


def broken(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """The losses of a process on which task b fails."""
    break_ = FAILURES[kind]
    return {} if break_ is None else given | {"b": [break_(call) for call in given["b"]]}


def train_with_bad_step(scenario: Scenario, model: nn.Module, rank: int | None) -> dict[str, Any]:
    """Train with a gradient scaler; in the second step task b overflows on the last process."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    method = scenario.method(model, engine=scaler)
    optimizer = scenario.optimizer(model.parameters())
    start = weights_of(model)
    seen: list[Any] = []
    for step in range(STEPS):
        given = losses(scenario, model, step, rank)
        if step == 1 and rank != 0:
            call = given["b"][0]
            given["b"] = [lambda call=call: call() * float("inf")]
        report = method.backward(given)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        seen.append((weights_of(model), method.state_dict(), scaler.get_scale(), report.finite))
    return {"start": start, "weights": [w for w, *_ in seen], "steps": [rest for _, *rest in seen]}


def alone(scenario: Scenario, **options: Any) -> Run:
    """The same training on one process, on the joined batch."""
    return train(scenario, net(scenario), None, **options)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of all of a tensor, gathered if it is sharded, dense if it is sparse."""
    tensor = tensor.detach()
    tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return (tensor.to_dense() if tensor.is_sparse else tensor).clone()


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {plain(name): whole(tensor) for name, tensor in model.state_dict().items()}


def gradient_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {plain(name): whole(p.grad) for name, p in model.named_parameters() if p.grad is not None}


def plain(name: str) -> str:
    for wrapper in ("_forward_module.", "_original_module.", "module."):
        name = name.removeprefix(wrapper)
    return name


def distance(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    """Euclidean distance between two sets of tensors of the same names."""
    assert first.keys() == second.keys()
    squares = [(first[name].double() - second[name].double()).square().sum() for name in first]
    return float(torch.stack(squares).sum().sqrt())


def error(run: Run, reference: Run) -> float:
    """How far a run ends from another, relative to how far the other one came."""
    return distance(run.weights, reference.weights) / distance(reference.weights, reference.start)


def tolerance(scenario: Scenario) -> float:
    return 1e-12 if scenario.dtype == torch.float64 else 1e-5


def assert_equals_joined_batch(scenario: Scenario, runs: Iterable[Run]) -> None:
    """What every process saw is what one process sees on the joined batch."""
    joined, close = alone(scenario), tolerance(scenario)
    for run in runs:
        assert error(run, joined) < close
        torch.testing.assert_close(run.losses, joined.losses, rtol=10 * close, atol=0)
        torch.testing.assert_close(run.grams, joined.grams, rtol=10 * close, atol=close, equal_nan=True)


def same(first: Any, second: Any) -> bool:
    """Whether two nested states are equal bit for bit."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    return bool(first == second)
