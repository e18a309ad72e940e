"""Dynamic weight average: more weight to tasks whose loss falls slowly."""

from __future__ import annotations

from typing import Any

from gradaccord.core.checks import whole_number
from gradaccord.core.parameters import Model
from gradaccord.methods.weigh.loss_weighting import LossWeighting, above, softmax


class DWA(LossWeighting):
    """Dynamic weight average (Liu S. et al. 2019, "End-to-End Multi-Task Learning with Attention").

        r_t = M_t(k - 1) / M_t(k - 2),    w = T softmax(r / temperature)

    M_t(k) is the mean loss of task t over the k-th window of steps (the paper's epoch). r_t is 1 until
    two windows are full; windows without the task do not count for it. The losses must be positive.
    Cost: see `LossWeighting`.

    temperature: the higher, the more equal the weights.
    window: the number of steps in a window.
    """

    def __init__(
        self, model: Model, *, temperature: float = 2.0, window: int = 100, **options: Any
    ) -> None:
        super().__init__(model, **options)
        if not 0 < temperature < float("inf"):
            raise ValueError(f"`temperature` is {temperature}: it must be a finite number > 0.")
        self.temperature = float(temperature)
        self.window = whole_number("window", window)
        self.steps = 0  # in the present window
        self.sums: dict[str, tuple[float, int]] = {}  # of losses in the present window, and how many
        self.means: dict[str, list[float]] = {}  # of the last two windows

    def weigh(self, losses: dict[str, float]) -> dict[str, float]:
        above({}, losses, "DWA compares losses by their ratio")
        rates = {task: self._rate(task) / self.temperature for task in losses}
        for task, loss in losses.items():
            total, count = self.sums.get(task, (0.0, 0))
            self.sums[task] = (total + loss, count + 1)
        self.steps += 1
        if self.steps == self.window:
            for task, (total, count) in self.sums.items():
                self.means[task] = [*self.means.get(task, []), total / count][-2:]
            self.steps, self.sums = 0, {}
        return {task: len(losses) * share for task, share in softmax(rates).items()}

    def _rate(self, task: str) -> float:
        means = self.means.get(task, [])
        return means[1] / means[0] if len(means) == 2 else 1.0

    def _state(self) -> dict[str, Any]:
        means = {task: list(values) for task, values in self.means.items()}
        return super()._state() | {"steps": self.steps, "sums": dict(self.sums), "means": means}

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        self.steps = int(state["steps"])
        self.sums = {task: (total, count) for task, (total, count) in state["sums"].items()}
        self.means = {task: list(values) for task, values in state["means"].items()}
