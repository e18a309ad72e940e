"""Run every method on the plane from every start, and summarise where it ends.

result = run(seeds=16)
result.of("PCGrad")[0].trapped          # {"x2": 1.0}: share of the seeds that end in each optimum
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import torch
from pydantic import ConfigDict, Field

from gradaccord.core.threads import one_thread
from gradaccord.runs.files import RESULTS
from gradaccord.runs.versioned import Versioned
from gradaccord.showcase.landscape import batched, unbatched
from gradaccord.showcase.landscape.plane import OPTIMA, STARTS, TASKS, losses, mean_cosine
from gradaccord.version import __version__

LR = 0.01  # unless given below; the sweep shows that it matters
REPTILE_LR = 0.5  # inner rate
RECADAM_LR = 0.1
RATES = (0.01, 0.05, 0.1, 0.3, 0.5, 1.0)
SEQUENTIAL = "Sequential Reptile"
CONTROLS = {SEQUENTIAL: "Sequential, η = 1", "DotProd": "Paired sum"}
METHODS = (
    "MTL", "GradNorm", "PCGrad", "GradVac", "RecAdam", "Reptile", SEQUENTIAL, CONTROLS[SEQUENTIAL],
    "DotProd", "DotProd, no cap", CONTROLS["DotProd"],
)  # fmt: skip
SWEPT = ("MTL", "PCGrad", "GradVac", "Reptile", SEQUENTIAL, CONTROLS[SEQUENTIAL])
LAST = 5  # a run's end is the mean of the last fifth of its iterates
NEAR = 1.0  # a run is trapped in an optimum if its end is nearer to it than this

Progress = Callable[[str, int, int, float], None]  # method, updates done, updates in all, seconds left


@dataclass(frozen=True)
class LandscapeSettings:
    """How many runs, how long: `steps` for methods that update in every step, else `outer_steps`."""

    seeds: int = 32
    steps: int = 600
    outer_steps: int = 200
    inner_steps: int = 100
    outer_lr: float = 0.1
    rates: tuple[float, ...] = RATES

    def __post_init__(self) -> None:
        for name in ("seeds", "steps", "outer_steps", "inner_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}: it must be at least 1.")
        if not 0 < self.outer_lr <= 1:
            raise ValueError(f"`outer_lr` is {self.outer_lr}: it must be in (0, 1].")
        for rate in self.rates:
            if not 0 < rate < math.inf:
                raise ValueError(f"`rates` holds {rate}: a rate must be positive.")

    @property
    def pair_steps(self) -> int:
        """Steps of two tasks that cost as many gradients as `steps` of three."""
        return self.steps * 3 // 2


@dataclass(frozen=True)
class Row:
    """Where one method ends from one start: means over seeds of means over the last iterates."""

    method: str
    rate: float  # learning rate; of a Reptile, the inner one
    start: tuple[float, float]
    seeds: int  # 1 if the method is deterministic
    end: tuple[float, float]
    loss: float  # sum of the three losses
    loss_error: float | None  # standard error over seeds
    cosine: float  # mean over pairs of tasks
    cosine_error: float | None
    end_cosine: float  # the same at each run's mean iterate, so without jitter
    trapped: dict[str, float]  # optimum -> share of runs trapped in it, if above 0

    @property
    def trapped_share(self) -> float:
        """Share of runs trapped in any optimum."""
        return sum(self.trapped.values())


class Result(Versioned):
    """What `results.json` holds, and the paths behind it."""

    FILE: ClassVar[str] = RESULTS
    model_config = ConfigDict(arbitrary_types_allowed=True)

    settings: LandscapeSettings
    rows: list[Row]  # by method and start
    sweep: list[Row]  # some of the methods at every rate
    findings: list[str] = Field(default_factory=list)
    seconds: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)
    # [1 + updates, starts, seeds, 2]; not written
    paths: dict[str, torch.Tensor] = Field(default={}, exclude=True)

    def of(self, method: str, rate: float | None = None) -> list[Row]:
        """The rows of one method, one for each start; at one of the sweep's rates, if given."""
        if rate is None:
            return [row for row in self.rows if row.method == method]
        return [row for row in self.sweep if (row.method, row.rate) == (method, rate)]

    @property
    def trapped(self) -> dict[str, float]:
        """Method -> share of its runs that end in a task's own optimum, mean over the starts."""
        methods = dict.fromkeys(row.method for row in self.rows)
        return {method: mean_of(self.of(method), "trapped_share") for method in methods}


def run(
    seeds: int = LandscapeSettings.seeds,
    *,
    steps: int = LandscapeSettings.steps,
    outer_steps: int = LandscapeSettings.outer_steps,
    inner_steps: int = LandscapeSettings.inner_steps,
    outer_lr: float = LandscapeSettings.outer_lr,
    rates: Sequence[float] = RATES,
    progress: Progress = lambda method, done, total, left: None,
) -> Result:
    """Run all methods, on one thread; about ten seconds. The global random state is left alone."""
    settings = LandscapeSettings(seeds, steps, outer_steps, inner_steps, outer_lr, tuple(rates))
    started = time.perf_counter()
    with one_thread():
        result = _run(settings, progress)
    result.findings = findings(result)
    result.seconds = time.perf_counter() - started
    result.versions = {"gradaccord": __version__, "torch": str(torch.__version__)}
    return result


def findings(result: Result) -> list[str]:
    """What the numbers say, in sentences."""
    worst = {m: max(row.trapped_share for row in result.of(m)) for m in METHODS}
    always = [m for m in METHODS if min(row.trapped_share for row in result.of(m)) == 1]
    never = [m for m in METHODS if worst[m] == 0]
    rest = [f"{m} ({worst[m]:.0%})" for m in METHODS if m not in always and m not in never]
    found = [
        f"Trapped in every run: {', '.join(always) or 'none'}. Never trapped: "
        f"{', '.join(never) or 'none'}."
        + (f" In some, with the share at the worst start: {', '.join(rest)}." if rest else "")
    ]
    reptile, sequential, control = (
        [mean_of(result.of(method), quantity) for quantity in ("cosine", "end_cosine", "loss")]
        for method in ("Reptile", SEQUENTIAL, CONTROLS[SEQUENTIAL])
    )
    found.append(
        f"At inner rate {REPTILE_LR:g} the cosine is {reptile[0]:.3f} for Reptile, {sequential[0]:.3f} "
        f"for {SEQUENTIAL} and {control[0]:.3f} for plain sequential training. At the mean iterates, "
        f"without the jitter, it is {reptile[1]:.3f}, {sequential[1]:.3f} and {control[1]:.3f}; the "
        f"losses are {reptile[2]:.0f}, {sequential[2]:.0f} and {control[2]:.0f}."
    )
    return found


def mean_of(rows: Sequence[Row], quantity: str) -> float:
    """Mean of a field of `Row` over rows, which are the starts of one method."""
    return sum(float(getattr(row, quantity)) for row in rows) / len(rows)


@dataclass(frozen=True)
class _MethodRun:
    """How a method is run: its own rate, its number of updates, and its iterates at given rates."""

    rate: float
    updates: int
    iterates: Callable[[torch.Tensor], Iterator[torch.Tensor]]


def _method_runs(chosen: LandscapeSettings) -> dict[str, _MethodRun]:
    seeds, steps, pairs, outer = chosen.seeds, chosen.steps, chosen.pair_steps, chosen.outer_steps

    def recadam(lrs: torch.Tensor) -> Iterator[torch.Tensor]:
        return unbatched.recadam(STARTS, RECADAM_LR, steps)

    def reptile(lrs: torch.Tensor) -> Iterator[torch.Tensor]:
        return batched.reptile(STARTS, lrs, chosen.inner_steps, chosen.outer_lr)

    def sequential(lrs: torch.Tensor, outer_lr: float) -> Iterator[torch.Tensor]:
        return batched.sequential_reptile(STARTS, seeds, lrs, chosen.inner_steps, outer_lr)

    def dotprod(lrs: torch.Tensor, **options: float) -> Iterator[torch.Tensor]:
        return batched.dotprod(STARTS, seeds, lrs, **options)

    return {
        "MTL": _MethodRun(LR, steps, lambda lrs: unbatched.mtl(STARTS, lrs)),
        "GradNorm": _MethodRun(LR, steps, lambda lrs: unbatched.gradnorm(STARTS, LR)),
        "PCGrad": _MethodRun(LR, steps, lambda lrs: batched.pcgrad(STARTS, seeds, lrs)),
        "GradVac": _MethodRun(LR, steps, lambda lrs: batched.gradvac(STARTS, seeds, lrs)),
        "RecAdam": _MethodRun(RECADAM_LR, steps, recadam),
        "Reptile": _MethodRun(REPTILE_LR, outer, reptile),
        SEQUENTIAL: _MethodRun(REPTILE_LR, outer, lambda lrs: sequential(lrs, chosen.outer_lr)),
        CONTROLS[SEQUENTIAL]: _MethodRun(REPTILE_LR, outer, lambda lrs: sequential(lrs, 1.0)),
        "DotProd": _MethodRun(LR, pairs, dotprod),
        "DotProd, no cap": _MethodRun(LR, pairs, lambda lrs: dotprod(lrs, max_ratio=math.inf)),
        CONTROLS["DotProd"]: _MethodRun(LR, pairs, lambda lrs: dotprod(lrs, weight=0.0)),
    }


def _run(settings: LandscapeSettings, progress: Progress) -> Result:
    runs = _method_runs(settings)
    total = sum(own.updates for own in runs.values())
    rows: list[Row] = []
    sweep: list[Row] = []
    paths = {}
    done, began = 0, time.perf_counter()
    for method, how in runs.items():
        rates = [how.rate, *(settings.rates if method in SWEPT else ())]
        points = []
        iterates = how.iterates(torch.tensor(rates, dtype=torch.float64, device="cpu"))
        for point in islice(iterates, how.updates):
            points.append(point)
            done += 1
            progress(method, done, total, (time.perf_counter() - began) / done * (total - done))
        whole = torch.stack([STARTS[:, None].expand_as(points[0]), *points])
        paths[method], *others = whole.unbind(1)  # by rate: [1 + updates, starts, seeds, 2]
        rows += summary(method, paths[method], how.rate)
        for rate, path in zip(rates[1:], others, strict=True):
            sweep += summary(method, path, rate)
    return Result(settings=settings, rows=rows, sweep=sweep, paths=paths)


def last_of(path: torch.Tensor) -> torch.Tensor:
    """The last iterates of a run, whose mean is its end."""
    return path[-max(1, len(path) // LAST) :]


def summary(method: str, path: torch.Tensor, rate: float) -> list[Row]:
    """One row for each start from a path [iterates, starts, seeds, 2]."""
    last = last_of(path)
    ends = last.mean(0)
    loss = losses(last).sum(-1).mean(0)
    cosine = mean_cosine(last).nanmean(0)
    near = torch.linalg.vector_norm(ends[..., None, :] - OPTIMA, dim=-1) < NEAR
    rows = []
    for i, start in enumerate(STARTS):
        shares = near[i].double().mean(0).tolist()
        rows.append(
            Row(
                method=method,
                rate=rate,
                start=_pair(start),
                seeds=path.shape[2],
                end=_pair(ends[i].mean(0)),
                loss=float(loss[i].mean()),
                loss_error=_error(loss[i]),
                cosine=float(cosine[i].mean()),
                cosine_error=_error(cosine[i]),
                end_cosine=float(mean_cosine(ends[i]).mean()),
                trapped={task: share for task, share in zip(TASKS, shares, strict=True) if share},
            )
        )
    return rows


def _pair(point: torch.Tensor) -> tuple[float, float]:
    x, y = point.tolist()
    return x, y


def _error(values: torch.Tensor) -> float | None:
    return None if len(values) < 2 else float(values.std() / math.sqrt(len(values)))
