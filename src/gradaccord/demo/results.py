"""What the demo found: outcomes, paired differences with their errors, and one sentence."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

import gradaccord
from gradaccord.demo.settings import BASELINE, Settings


@dataclass(frozen=True)
class Outcome:
    """One method under one seed."""

    accuracy: dict[str, float]  # on the whole test set of each language
    train_loss: float  # mean over the last tenth of the steps
    cosine: float  # between the languages' gradients, mean over all steps
    conflicts: float  # share of pairs of languages with a negative cosine, mean over all steps
    end_cosine: float  # after training, on many names of every language, without dropout
    time_ratio: float  # median over steps: gradient time / that of sum(losses).backward()

    @property
    def mean_accuracy(self) -> float:
        """Every language counts alike."""
        return statistics.fmean(self.accuracy.values())


@dataclass
class Comparison:
    """All outcomes, by method, in the order of the seeds."""

    settings: Settings
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    steps: int = 0  # taken in each run; fewer than asked for if interrupted in the first seed
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def seeds(self) -> int:
        """How many seeds are done."""
        return len(next(iter(self.outcomes.values()), []))

    def accuracies(self, method: str) -> list[float]:
        """One for each seed, in per cent."""
        return [100 * outcome.mean_accuracy for outcome in self.outcomes[method]]

    def differences(self, method: str) -> list[float]:
        """Accuracy minus the baseline's under the same seed, in points."""
        pairs = zip(self.accuracies(method), self.accuracies(BASELINE), strict=True)
        return [own - base for own, base in pairs]

    def mean(self, method: str, quantity: str) -> float:
        """Mean over seeds of a field of `Outcome`."""
        return statistics.fmean(getattr(outcome, quantity) for outcome in self.outcomes[method])

    def save(self, folder: Path) -> Path:
        """Write everything to `results.json` in a folder."""
        path = folder / "results.json"
        summary = {
            method: {
                "accuracy": mean_and_error(self.accuracies(method)),
                "difference": mean_and_error(self.differences(method)),
            }
            for method in self.outcomes
        }
        everything = asdict(self) | {
            "finding": finding(self),
            "summary": summary,
            "versions": {"gradaccord": gradaccord.__version__, "torch": torch.__version__},
        }
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
        return path


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and its standard error if there are two values or more."""
    if len(values) < 2:
        return statistics.fmean(values), None
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def finding(comparison: Comparison) -> str:
    """What was found, in one sentence. A difference within two standard errors is not one."""
    n = comparison.seeds
    if n < 3:
        return "Too few seeds to tell a difference from chance: run three or more."
    clear = []
    for method in comparison.settings.methods[1:]:
        mean, error = mean_and_error(comparison.differences(method))
        assert error is not None
        if abs(mean) > 2 * error:
            side = "better" if mean > 0 else "worse"
            clear.append(f"{method} is {abs(mean):.2f} ± {error:.2f} points {side} than {BASELINE}")
    if not clear:
        return (
            f"No clear difference: over {n} seeds no method's accuracy is more than two standard "
            f"errors away from that of {BASELINE}."
        )
    doubt = "" if n >= 5 else f"; with {n} seeds chance alone often does as much"
    return f"Over {n} seeds {', and '.join(clear)}{doubt}."
