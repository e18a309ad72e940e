"""What was found, in three sentences that depend on the numbers, also when nothing helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradaccord.compare.statistics import Difference, Mean, corrected
from gradaccord.compare.summary import AVERAGE, Row
from gradaccord.showcase.demo.glyphs import Glyphs
from gradaccord.showcase.demo.names import Names
from gradaccord.showcase.demo.plane import trapped

CAUTION = "With --fast all parts ran for a tenth of their time: a look, not a result."

NO_P = ": no p value can be given for fewer than three seeds or equal differences"


def findings(plane: Mapping[str, Any], names: Names, glyphs: Glyphs) -> list[str]:
    """Three sentences: the languages trained on, the others, the plane with the characters."""
    return [_learned(names), _kept(names), _elsewhere(plane, glyphs)]


def _learned(names: Names) -> str:
    """Is anything better than plain training and than its own control?"""
    baseline, *others = names.summary.rows
    methods = [row for row in others if not row.spec.is_control and row.seeds]
    seeds = len(baseline.seeds)
    usual = f"{baseline.name} ({baseline.scores[AVERAGE]} %)"
    better = [row for row in methods if _better(row)]
    if better:
        shown = " and ".join(f"{row.name} ({_told(row.to_baseline)})" for row in better)
        said = (
            f"On the twelve languages {shown} beats both {usual} and its own control over {seeds} seeds"
        )
    else:
        said = f"On the twelve languages no method clearly beats both {usual} and its own control"
        said += f" over {seeds} seeds" if names.summary.tests else NO_P
    controlled = [row for row in methods if row.to_control is not None and row.control != baseline.spec]
    compared = [
        f"{row.name} is {_told(row.to_control)} against {row.control}"
        for row in controlled
        if row.to_control is not None
    ]
    return "; ".join([said, *compared, *_more_steps(others)]) + "."


def _more_steps(rows: Sequence[Row]) -> list[str]:
    """Whether a control, which has no idea but more steps on drawn tasks, beats the baseline."""
    better = [row for row in rows if row.spec.is_control and _clear_gain(row.to_baseline)]
    if not better:
        return []
    best = max(better, key=lambda row: row.to_baseline.mean.value)
    return [
        f"the control {best.name}, which takes a step for every batch or pair of batches instead of "
        f"one for a batch of every language, is {_told(best.to_baseline)} against the baseline"
    ]


def _kept(names: Names) -> str:
    """Unseen languages and forgetting, with the training loss that they were paid for."""
    rows = [row for row in names.summary.rows if row.seeds]
    zero = {row.name: Mean.of(list(names.zero_shot(row.spec).values())) for row in rows}
    baseline = rows[0]
    differences = corrected({row.spec: names.zero_shot_difference(row.spec) for row in rows[1:]})
    clear = [row for row in rows[1:] if differences[row.spec].clear and not row.spec.is_control]
    if clear:
        shown = ", ".join(f"{row.name} ({_told(differences[row.spec])})" for row in clear)
        said = f"On unseen languages {shown} differs clearly from {baseline.name}"
    else:
        best = max(rows, key=lambda row: zero[row.name].value)
        said = (
            f"On unseen languages no method differs clearly from {baseline.name} "
            f"({zero[baseline.name]} %; highest: {'the control ' if best.spec.is_control else ''}"
            f"{best.name}, {zero[best.name]} %)"
        )
    return f"{said}; {_forgetting(names, rows)}."


def _forgetting(names: Names, rows: Sequence[Row]) -> str:
    """Who forgets least and most of the unseen languages, where that is no accident."""
    lost = {row.spec: names.forgotten(row.spec, seen=False) for row in rows}
    order = sorted(rows, key=lambda row: Mean.of(list(lost[row.spec].values())).value)
    least, most = order[0], order[-1]
    low, high = (Mean.of(list(lost[row.spec].values())).value for row in (least, most))
    pairs = corrected(  # of all pairs, as the extremes were picked by looking
        {
            (more.spec, less.spec): Difference.between(lost[more.spec], lost[less.spec])
            for i, less in enumerate(order)
            for more in order[i + 1 :]
        }
    )
    if least is most or not pairs[most.spec, least.spec].clear:
        return (
            "what is forgotten of them does not differ clearly (masked-character loss "
            f"{low:+.2f} to {high:+.2f})"
        )
    said = (
        f"{least.name} forgets least of them (masked-character loss {low:+.2f}, at a training loss of "
        f"{least.train_loss.value:.2f}) and {most.name} most ({high:+.2f}, at "
        f"{most.train_loss.value:.2f})"
    )
    if least.train_loss.value >= max(row.train_loss.value for row in rows):
        return f"{said}, which says little: who forgets least has also learned least"
    return said


def _elsewhere(plane: Mapping[str, Any], glyphs: Glyphs) -> str:
    shares = trapped(dict(plane))
    always = [method for method, share in shares.items() if share == 1]
    never = [method for method, share in shares.items() if share == 0]
    told = [
        f"{len(own)} of {len(shares)} methods {what} end in one task's own optimum ({'; '.join(own)})"
        for what, own in (("always", always), ("never", never))
        if own
    ]
    caught = " and ".join(told) or "every method ends in one task's own optimum in some runs only"
    gain = glyphs.validated - glyphs.untrained
    worth = "is worth" if gain > 0 else "has cost"
    return (
        f"On the plane {caught}, and {glyphs.iterations} iterations of MAML take characters "
        f"never seen from {glyphs.before:.0f} % before to {glyphs.after:.0f} ± {glyphs.interval:.0f} % "
        f"after {glyphs.steps} steps on one picture of each, of which meta-training {worth} "
        f"{abs(gain):.0f} points."
    )


def _better(row: Row) -> bool:
    both = [row.to_baseline, *([] if row.to_control is None else [row.to_control])]
    return all(_clear_gain(difference) for difference in both)


def _clear_gain(difference: Difference) -> bool:
    return difference.clear and difference.mean.value > 0


def _told(difference: Difference) -> str:
    return f"{difference.mean.value:+.2f} points, {difference.told}"
