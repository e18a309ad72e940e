"""The settings of the demo: which methods, how many seeds, how long."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RECIPE = "cldr"
# Few outer updates fit in so short a run: eta 0.3 was better on dev than the paper's 0.1.
# Their controls are added: sequential training with eta = 1, and two batches with nothing else.
METHODS = "pcgrad;sequential_reptile:inner_steps=20,outer_lr=0.3;dotprod"
GRADIENTS = 600  # of each run on the names: 50 steps on all languages, or 600 steps on one each
FASTER = 10  # `fast` divides lengths by this


@dataclass(frozen=True)
class DemoSettings:
    """How long and how often. `fast`: a preview of all parts, not a result."""

    out: Path
    seeds: int = 3
    gradients: int | None = None  # of each run on the names; None: `GRADIENTS`
    methods: str = METHODS
    fast: bool = False

    def shortened(self, whole: int) -> int:
        """A length, divided by `FASTER` if `fast` is set."""
        return max(whole // FASTER, 1) if self.fast else whole
