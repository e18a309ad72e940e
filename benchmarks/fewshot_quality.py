"""How good the few-shot methods are after equal time on Omniglot, and how early sharing helps on birds.

    python benchmarks/fewshot_quality.py --data-dir DATA --minutes 10 --out runs/fewshot-quality

DATA holds omniglot/ and cub200/. Each run gets the same CPU minutes of training on one thread, without
validation and test. You can interrupt the script at any time: started again, it goes on where it
stopped. Writes `quality.md` (tables) and the curves as PNG into --out after every run. Everything is
non-transductive. The settings were chosen for such budgets: they are not the published ones, which take
40,000 to 100,000 iterations (`gradaccord fewshot presets`). Birds are at 42x42 with 32 filters and not
84x84 with 48, which takes five times as long.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from gradaccord.data.images.class_parts import ClassSplits
from gradaccord.data.images.class_splits import load
from gradaccord.meta.evaluation import mean_and_interval
from gradaccord.meta.figures import level, validation_figure, write
from gradaccord.meta.progress import RunProgress
from gradaccord.meta.run import Run, validation_curve
from gradaccord.meta.settings import FewShotSettings, settings_for

PUBLISHED = {  # Omniglot 5-way, non-transductive, by shots
    "reptile": {1: 95.39, 5: 98.90},
    "dotprod-inner": {1: 97.58, 5: 99.58},
    "dotprod-outer": {1: 97.58, 5: 99.58},
}
# The ensemble is of the paper on sharing; 50 inner steps at test make it costly for the others.
LONG_TEST = {"keep": 1, "curve_tasks": 20}
OMNIGLOT: dict[str, dict[str, Any]] = {
    "reptile": LONG_TEST,
    "fomaml": {},
    "maml": {},
    "maml+sharing": {"share": True},
    "dotprod-inner": LONG_TEST,
    "dotprod-outer": LONG_TEST,
}
BIRDS: dict[str, dict[str, Any]] = {"maml": {}, "maml+sharing": {"share": True}}
BIRD_SETTINGS: dict[str, Any] = {
    "data": "cub200", "size": 42, "network": "maml++", "filters": 32, "shots": 1, "queries": 5,
    "tasks": 5, "inner_lr": 0.1, "inner_steps": 5, "outer_lr": 1e-3, "validate_every": 50,
    "validation_tasks": 60, "test_queries": 5,
}  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """One run of the matrix."""

    table: str
    method: str
    seed: int
    settings: FewShotSettings

    def folder(self, out: Path) -> Path:
        return out / self.table / self.method / f"seed-{self.seed}"


def plan(
    minutes: float, bird_minutes: float, seeds: int, bird_seeds: int, test_tasks: int
) -> list[Planned]:
    """Seed by seed, so that early tables are complete, with fewer seeds."""
    runs = []
    budget = {"clock": "processor", "test_tasks": test_tasks}
    for seed in range(seeds):
        for shots in (1, 5):
            for method, options in OMNIGLOT.items():
                algorithm = method.removesuffix("+sharing")
                often = {
                    "validate_every": 250,
                    "validation_tasks": 60,
                    "data": "omniglot",
                    "shots": shots,
                }
                chosen = settings_for(algorithm, minutes=minutes, **(often | budget | options))
                runs.append(Planned(f"omniglot-5way-{shots}shot", method, seed, chosen))
    for seed in range(bird_seeds):
        for method, options in BIRDS.items():
            chosen = settings_for("maml", minutes=bird_minutes, **(budget | BIRD_SETTINGS | options))
            runs.append(Planned("cub200-5way-1shot", method, seed, chosen))
    return runs


def execute(planned: Planned, splits: ClassSplits, out: Path) -> None:
    folder = planned.folder(out)
    if (folder / "results.json").exists():
        return
    print(f"{planned.table} {planned.method} seed {planned.seed}", flush=True)
    run = Run(planned.settings, splits, folder, planned.seed)
    last = time.monotonic()

    def show(progress: RunProgress) -> None:
        nonlocal last
        if time.monotonic() - last > 60:
            last = time.monotonic()
            seen = "" if progress.validation is None else f"  validation {progress.validation[0]:.1f} %"
            print(f"  {progress.share:.0%} iteration {progress.iteration}{seen}", flush=True)

    try:
        run.train(show)
    except FloatingPointError as error:
        print(f"  {error}", flush=True)
        run.save()
    tested = run.test(show)
    print(f"  {tested.single}", flush=True)


def report(runs: list[Planned], out: Path) -> None:
    """The tables and the figures of what is finished."""
    lines = []
    for table in dict.fromkeys(run.table for run in runs):
        done = [
            replace(r, settings=FewShotSettings.read(r.folder(out)))  # as it was run
            for r in runs
            if r.table == table and (r.folder(out) / "results.json").exists()
        ]
        if done:
            lines += [*_table(table, done, out), ""]
            curves: dict[str, list[Any]] = {}
            for run in done:
                curves.setdefault(run.method, []).append(validation_curve(run.folder(out)))
            goals: dict[str, float] = {}
            if table.startswith("omniglot"):
                shots = done[0].settings.shots
                goals = {"Reptile, published": PUBLISHED["reptile"][shots]}
                goals |= {"DotProd, published": PUBLISHED["dotprod-inner"][shots]}
            title = f"{table}, {_minutes(done)} processor minutes each"
            figure = validation_figure(curves, title)
            _draw_goals(figure.axes[0], goals)
            write(figure, out / f"{table}.png")
    (out / "quality.md").write_text("\n".join(lines))


def _draw_goals(axes: Any, goals: dict[str, float]) -> None:
    """Thin lines with their names: that of the highest goal above it, the others' below."""
    for name, value in goals.items():
        level(axes, value, f"{name} {value:g}", (0, (4, 3)), above=value == max(goals.values()))
    if goals:
        low, high = axes.get_ylim()
        axes.set_ylim(low, max(high, max(goals.values()) + 0.05 * (high - low)))


def _minutes(done: list[Planned]) -> str:
    """Of a run, or from the shortest to the longest."""
    minutes = sorted({run.settings.minutes or 0.0 for run in done})
    return " to ".join(f"{m:g}" for m in dict.fromkeys((minutes[0], minutes[-1])))


def _table(table: str, done: list[Planned], out: Path) -> list[str]:
    lines = [
        f"### {table}, {_minutes(done)} processor minutes of training a run, non-transductive",
        "",
        "| method | seeds | test accuracy % | ensemble % | published | iterations | tasks a batch | "
        "inner steps (test) | inner rate | outer |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(run.method for run in done):
        own = [run for run in done if run.method == method]
        found = [json.loads((run.folder(out) / "results.json").read_text()) for run in own]
        s = own[0].settings
        published = PUBLISHED.get(method, {}).get(s.shots) if table.startswith("omniglot") else None
        steps = s.inner_steps if s.evaluation_steps is None else s.evaluation_steps
        iterations = round(sum(one["iterations"] for one in found) / len(found))
        joined = [one["ensemble"] for one in found if "ensemble" in one]
        lines.append(
            f"| {method} | {len(found)} | {_value([one['single'] for one in found])} "
            f"| {_value(joined) if joined else ''} | {'' if published is None else published} "
            f"| {iterations} | {s.tasks} | {s.inner_steps} ({steps}) | {s.inner_lr:g} "
            f"| {s.optimizer} {s.outer_lr:g} |"
        )
    return [*lines, "", *_speed_ups(done, out), *_early(done, out)]


def _value(results: list[dict[str, Any]]) -> str:
    """Of one seed with its interval over tasks; of several, the mean with the interval over seeds."""
    if len(results) == 1:
        return f"{results[0]['value']:.2f} ± {results[0]['interval']:.2f}"
    mean, interval = mean_and_interval([one["value"] for one in results])
    return f"{mean:.2f} ± {interval:.2f}"


def _speed_ups(done: list[Planned], out: Path) -> list[str]:
    """Of sharing over plain MAML, by the paper's definition, seed by seed."""
    lines = []
    for run in done:
        plain = next((r for r in done if r.method == "maml" and r.seed == run.seed), None)
        if run.method == "maml+sharing" and plain is not None:
            curves = [[(i, a) for i, a, _ in validation_curve(r.folder(out))] for r in (plain, run)]
            if all(any(i > 0 for i, _ in curve) for curve in curves):
                trained = [[pair for pair in curve if pair[0] > 0] for curve in curves]
                best = [max(a for _, a in curve) for curve in trained]
                lines.append(
                    f"Seed {run.seed}: speed-up {_speed_up(*trained):+.2f} as the paper defines it "
                    f"(iterations to the best validation accuracy, which was {best[1]:.1f} % with "
                    f"sharing and {best[0]:.1f} % without)."
                )
    return lines


def _first_best(curve: list[tuple[int, float]]) -> int:
    """The first epoch with the highest validation accuracy. curve: (epoch, accuracy) pairs."""
    best = max(accuracy for _, accuracy in curve)
    return next(epoch for epoch, accuracy in curve if accuracy == best)


def _speed_up(plain: list[tuple[int, float]], shared: list[tuple[int, float]]) -> float:
    """Speed-up as Chang & Lipson 2020 define it: (E - E_shared) / E_shared.

    E: the epoch of the first best validation accuracy of the plain run, E_shared of the run with
    gradient sharing. 0.5 means that the plain run took one and a half times as long. It says nothing
    about how good the best accuracies are: compare them as well.
    """
    slow, fast = _first_best(plain), _first_best(shared)
    return (slow - fast) / fast


def _early(done: list[Planned], out: Path) -> list[str]:
    """Sharing minus plain MAML at equal iterations: the mean over the curve, and over seeds."""
    gains = []
    for run in done:
        plain = next((r for r in done if r.method == "maml" and r.seed == run.seed), None)
        if run.method == "maml+sharing" and plain is not None:
            ours, theirs = (
                {i: a for i, a, _ in validation_curve(r.folder(out)) if i > 0} for r in (run, plain)
            )
            both = sorted(ours.keys() & theirs.keys())
            if both:
                gains.append(sum(ours[i] - theirs[i] for i in both) / len(both))
    if len(gains) < 2:
        return []
    error = statistics.stdev(gains) / len(gains) ** 0.5
    return [
        f"Validation accuracy with sharing minus without, at equal iterations, mean of the curve: "
        f"{statistics.fmean(gains):+.2f} ± {error:.2f} points (standard error over {len(gains)} seeds)."
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("GRADACCORD_DATA"))
    parser.add_argument("--minutes", type=float, default=10, help="CPU minutes of each Omniglot run")
    parser.add_argument("--bird-minutes", type=float, help="of each bird run (default: --minutes)")
    parser.add_argument("--seeds", type=int, default=1, help="of Omniglot")
    parser.add_argument("--bird-seeds", type=int, default=3)
    parser.add_argument("--test-tasks", type=int, default=600)
    parser.add_argument(
        "--only", default="", help="run only what has this in its name, e.g. omniglot-5way-1"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/fewshot-quality"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    birds = chosen.bird_minutes or chosen.minutes
    runs = plan(chosen.minutes, birds, chosen.seeds, chosen.bird_seeds, chosen.test_tasks)
    loaded: dict[str, ClassSplits] = {}
    for run in runs:
        if chosen.only not in f"{run.table} {run.method}":
            continue
        data = run.settings.data
        if data not in loaded:
            loaded[data] = load(data, chosen.data_dir, size=run.settings.size)
        execute(run, loaded[data], chosen.out)
        report(runs, chosen.out)
    print((chosen.out / "quality.md").read_text())


if __name__ == "__main__":
    main()
