"""The gradient of an ordinary step: what `loss.backward()` gives, at what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import torch

from gradaccord.combine.combination import Measured
from gradaccord.combine.plain import Sum
from gradaccord.core.bank import Bank
from gradaccord.core.losses import Losses
from gradaccord.core.parameters import Model
from gradaccord.core.report import StepReport


class PlainGradient(Sum):
    """`Sum` that passes a lone task's gradient on as autograd made it, without reading it.

        g = sum_t g_t

    A step with one task has no pair to compare: the Gram matrix of its report is NaN, and `finite`
    speaks of its loss alone. That saves a pass over every gradient, which trajectory methods cannot
    afford (`Sum` costs 5 to 20 % of a small encoder's step). Several tasks in a step are measured as
    by `Sum`. Cost: one batch gradient a task, no memory for a lone one.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        super().__init__(model, **options)
        self._by_rows = self._collector
        self._untouched = copy(self._collector)
        self._untouched.parameters = replace(self.parameters, embeddings=frozenset())

    def backward(self, losses: Losses) -> StepReport:
        """Fill `.grad` with the gradient. See `gradaccord.core.method.Method`."""
        report = super().backward(losses)
        if len(report.tasks) > 1:
            return report
        return replace(
            report,
            gram=torch.full_like(report.gram, float("nan")),
            finite=bool(torch.isfinite(report.losses).all()),
        )

    def _bank(self, losses: Losses) -> tuple[Bank, list[str]]:
        # Between processes an embedding's gradient travels by its rows; alone it need not be split.
        alone = self.engine.group is None and isinstance(losses, Mapping) and len(losses) == 1
        self._collector = self._untouched if alone else self._by_rows
        return super()._bank(losses)

    def _measure(self, bank: Bank) -> tuple[Measured, list[int]]:
        if len(bank.tasks) > 1:
            return super()._measure(bank)
        # Losses are checked as ever; what reaches no parameter has nothing to measure.
        return super()._measure(replace(bank, gradients=[[None] * len(self.parameters)]))
