"""Static task weights: a loss is scaled before the method sees it, and logged as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gradaccord.core.report import StepReport


class WeightedLoss:
    """weight * loss, of a callable that `backward` takes; a regulariser's term in it counts as loss."""

    def __init__(self, call: Callable[[], Any], weight: float) -> None:
        self.call = call
        self.weight = weight

    def __call__(self) -> Any:
        """The loss, or (mean loss, items), scaled."""
        found = self.call()
        if isinstance(found, tuple):
            loss, *rest = found
            return (loss * self.weight, *rest)
        return found * self.weight

    def extras(self) -> dict[str, float]:
        """What the callable itself adds to the step's report."""
        inner = getattr(self.call, "extras", None)
        return dict(inner()) if callable(inner) else {}


def weighted(call: Callable[[], Any], weight: float) -> Callable[[], Any]:
    """The callable of a task with this weight."""
    return call if weight == 1 else WeightedLoss(call, weight)


def unweighted(report: StepReport, weights: Mapping[str, float]) -> StepReport:
    """The report with the losses as the tasks gave them. weights: of every task that is drawn."""
    if all(weight == 1 for weight in weights.values()):
        return report
    own = [_weight(name, weights) for name in report.tasks]
    return replace(report, losses=report.losses / report.losses.new_tensor(own))


def _weight(name: str, weights: Mapping[str, float]) -> float:
    """The weight of a batch, which is called TASK or, if a step holds several of the task, TASK#1."""
    return weights[name] if name in weights else weights[name.rpartition("#")[0]]
