"""MetaReport: what one meta-iteration saw and spent."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class MetaReport:
    """Means over the tasks of a batch, over all processes; after the last inner step.

    NaN marks what was not measured: a method that needs no queries was given none, or the labels are
    not class numbers.
    """

    query_loss: float
    query_accuracy: float
    tasks: int
    gradients: int  # batch gradients spent by all tasks; a Hessian product counts as one more
    seconds: float
    finite: bool = True  # False: a gradient held inf or NaN; running means have not moved
    capped: float = math.nan  # DotProd: share of terms that the cap has shortened
    sigma_m: tuple[
        float, ...
    ] = ()  # gradient sharing, per inner step: weight of this batch in the mean
    sigma_lambda: tuple[float, ...] = ()  # and of the mean in a step; near 1: the tasks are masked out

    def to_floats(self) -> dict[str, float]:
        """A flat dictionary of floats for any logger."""
        floats = {
            "query_loss": self.query_loss,
            "query_accuracy": self.query_accuracy,
            "tasks": float(self.tasks),
            "gradients": float(self.gradients),
            "seconds": self.seconds,
            "finite": float(self.finite),
        }
        if not math.isnan(self.capped):
            floats["capped"] = self.capped
        floats |= {f"sigma_m/{k}": value for k, value in enumerate(self.sigma_m, 1)}
        floats |= {f"sigma_lambda/{k}": value for k, value in enumerate(self.sigma_lambda, 1)}
        return floats
