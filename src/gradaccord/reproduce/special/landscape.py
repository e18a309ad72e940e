"""The plane with three optima (Lee et al. 2022): all methods at once, one record of where they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradaccord.reproduce.special.outcome import SpecialOutcome
from gradaccord.showcase.landscape.plane import STARTS
from gradaccord.showcase.landscape.runs import Row, run


def landscape(
    settings: dict[str, Any], seed: int, *, data: Path | None, folder: Path
) -> SpecialOutcome:
    """settings: those of `showcase.landscape.runs.run`, whose `seeds` are runs of the random methods;
    and `starts`: points [x, y] of its `STARTS`, by default all three.

    Each method is recorded as a task, at another rate as the task `name @ rate`, with its summed loss,
    its cosine and the share of runs that end trapped in one task's optimum, as means over starts.
    """
    starts = _starts(settings.get("starts"))
    result = run(**{name: value for name, value in settings.items() if name != "starts"})
    groups: dict[str, list[Row]] = {}
    for row in result.rows:
        if row.start in starts:
            groups.setdefault(row.method, []).append(row)
    for row in result.sweep:
        if row.start in starts:
            groups.setdefault(f"{row.method} @ {row.rate:g}", []).append(row)
    test = {
        name: {
            "trapped": 100 * sum(row.trapped_share for row in rows) / len(rows),
            "loss": sum(row.loss for row in rows) / len(rows),
            "cosine": sum(row.cosine for row in rows) / len(rows),
            "end_cosine": sum(row.end_cosine for row in rows) / len(rows),
        }
        for name, rows in groups.items()
    }
    return SpecialOutcome(test=test, trained=list(dict.fromkeys(row.method for row in result.rows)))


def _starts(given: Any) -> list[tuple[float, ...]]:
    known = [tuple(start) for start in STARTS.tolist()]
    wanted = known if given is None else [tuple(map(float, start)) for start in given]
    for start in wanted:
        if start not in known:
            shown = ", ".join(map(str, known))
            raise ValueError(f"`starts` holds {start}: use some of {shown}.")
    return wanted
