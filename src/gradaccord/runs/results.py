"""What `results.json` says, read in the ways that comparisons, sweeps and reports share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def main_scores(results: Mapping[str, Any], split: str) -> dict[str, float]:
    """Every task's main metric on a split, in percent."""
    return {task: scores[results["metrics"][task]] for task, scores in results[split].items()}
