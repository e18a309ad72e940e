"""How far a few-shot run is, and how long it will still take: what its displays show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class RunProgress:
    """How far a run is, for progress displays."""

    iteration: int
    iterations: int | None
    seconds: float
    minutes: float | None
    loss: float = float("nan")  # these three: running means over some 20 iterations
    accuracy: float = float("nan")
    pace: float = float("nan")  # seconds per iteration
    validation: tuple[float, float] | None = None  # latest accuracy and interval, in percent
    best: float | None = None
    sigma_m: tuple[float, ...] = ()
    sigma_lambda: tuple[float, ...] = ()
    doing: str = "training"  # or what is done beside it, with the share that is done
    evaluation_left: float = 0.0  # seconds that validations and the test still take

    @property
    def share(self) -> float:
        """How much of the run is over, 0 to 1, by iterations or by time, whichever ends it first."""
        by_step = self.iteration / self.iterations if self.iterations else 0.0
        by_time = self.seconds / (60 * self.minutes) if self.minutes else 0.0
        return min(1.0, max(by_step, by_time))

    @property
    def seconds_left(self) -> float:
        """Expected seconds; validations and the test count once a validation has been timed."""
        left = [(self.iterations - self.iteration) * self.pace] if self.iterations else []
        if self.minutes:
            left.append(60 * self.minutes - self.seconds)
        return max(0.0, min(left)) + self.evaluation_left

    def counter(
        self, show: Callable[[RunProgress], None], what: str, total: int
    ) -> Callable[[int], None]:
        """A function to call with the number of tasks done: it shows `what` and the share done."""

        def count(done: int) -> None:
            self.doing = f"{what}, {done / total:.0%}"
            show(self)

        count(0)
        return count
