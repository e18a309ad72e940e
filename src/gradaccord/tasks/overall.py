"""One number for several tasks: the mean of their scores, a correlation counted as (1 + r) / 2."""

from __future__ import annotations

from collections.abc import Mapping


def overall(scores: Mapping[str, Mapping[str, float]]) -> float:
    """The minBERT report's overall score in percent: mean(SST, paraphrase, (100 + Pearson) / 2).

        overall({"sst": {"accuracy": 51.7}, "quora": {"accuracy": 87.1}, "sts": {"pearson": 89.1}})

    scores: of each task, as `evaluate` gives them. A task with `pearson` counts by its correlation,
        another by its accuracy.
    """
    if not scores:
        raise ValueError("`scores` is empty: give those of at least one task.")
    return sum(_share(task, found) for task, found in scores.items()) / len(scores)


def _share(task: str, found: Mapping[str, float]) -> float:
    if "pearson" in found:
        return (100 + found["pearson"]) / 2
    if "accuracy" in found:
        return found["accuracy"]
    raise ValueError(
        f"Task {task!r} has the scores {', '.join(found) or 'none'}: the overall score is of tasks "
        "with `accuracy` or `pearson`."
    )
