"""How many steps an arm and its control take to reach fixed scores, and the arm's speed-up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from gradaccord.compare.comparison import AVERAGE
from gradaccord.compare.statistics import Difference, Mean
from gradaccord.reproduce.entry import Design
from gradaccord.reproduce.grid import NONE, Grid
from gradaccord.reproduce.records import Point, RunRecord, steps_to

Steps = Callable[[Sequence[Point]], float]
Pair = tuple[float, float]  # steps of the arm, of its control
NOTE = (
    "Steps until the average on validation first reaches a score, interpolated between validations: "
    "means over the seeds at which both runs reach it. Speed-up: how many more the control takes, in "
    "percent of the arm's; geometric mean over seeds, with its 95 % interval. The best validation is "
    "the paper's measure, and depends on chance where the curve is flat."
)


def best_step(curve: Sequence[Point]) -> float:
    """The step of the best validation, the first of several."""
    found = [(point.value(AVERAGE), -point.step) for point in curve]
    return float(-max(found)[1]) if found else math.nan


def speed_up_tables(design: Design, records: Sequence[RunRecord]) -> Iterator[Grid]:
    """For each variant: every arm with a control, at each level and at the best validation."""
    measures: dict[str, Steps] = {
        f"{level:g}": lambda curve, level=level: steps_to(curve, level)  # type: ignore[misc]
        for level in design.levels
    }
    measures["best validation"] = best_step
    for variant, budget in product(design.variants if design.levels else (), design.budgets):
        chosen = [one for one in records if (one.variant, one.budget) == (variant, budget)]
        own = {(one.arm, one.seed): one.curve for one in chosen}
        rows = [
            (arm, control, name, *cells)
            for arm, control in design.controls.items()
            for name, steps in measures.items()
            if (cells := _cells(own, arm, control, steps)) is not None
        ]
        if rows:
            where = f"{variant}: " if len(design.variants) > 1 else ""
            headings = (
                "arm",
                "control",
                "up to",
                "pairs",
                "steps, control",
                "steps, arm",
                "speed-up, %",
            )
            yield Grid(f"{where}steps to fixed scores", headings, tuple(rows), NOTE)


def _cells(
    curves: dict[tuple[str, int], list[Point]], arm: str, control: str, steps: Steps
) -> tuple[str, ...] | None:
    """Pairs, both means, and the speed-up; None if there is no pair of runs."""
    seeds = sorted(seed for name, seed in curves if name == arm and (control, seed) in curves)
    pairs = [(steps(curves[arm, seed]), steps(curves[control, seed])) for seed in seeds]
    used = [pair for pair in pairs if all(map(math.isfinite, pair)) and min(pair) > 0]
    if not pairs:
        return None
    means = [Mean.of(each).text(0) for each in zip(*used, strict=True)] or [NONE, NONE]
    logs = [{i: math.log(pair[side]) for i, pair in enumerate(used)} for side in (1, 0)]
    return (_counted(used, pairs), means[1], means[0], _percent(Difference.between(*logs)))


def _counted(used: Sequence[Pair], pairs: Sequence[Pair]) -> str:
    """How many pairs count, and why the others do not."""
    why = {
        "arm never": sum(math.isnan(arm) for arm, _ in pairs),
        "control never": sum(math.isnan(control) for _, control in pairs),
        "at the start": sum(min(pair) == 0 for pair in pairs),
    }
    left_out = ", ".join(f"{reason}: {count}" for reason, count in why.items() if count)
    return f"{len(used)} of {len(pairs)}" + (f" ({left_out})" if left_out else "")


def _percent(of_logs: Difference) -> str:
    """A difference of logarithms as a ratio less one, with its interval."""
    if not of_logs.count:
        return NONE
    middle, half = of_logs.mean, of_logs.half_interval
    shown = f"{round(100 * math.expm1(middle)):+d}"
    if not math.isfinite(half):
        return shown
    low, high = (100 * math.expm1(middle + sign * half) for sign in (-1, 1))
    return f"{shown} [{low:.0f}, {high:.0f}]"
