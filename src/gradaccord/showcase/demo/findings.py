"""The demo's findings: four sentences made from the numbers, also when nothing helped."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradaccord.compare.comparison import Standing
from gradaccord.compare.specs import Spec
from gradaccord.compare.statistics import Difference, Mean, corrected, short_p
from gradaccord.showcase.demo.glyphs import Glyphs
from gradaccord.showcase.demo.names import Names
from gradaccord.showcase.demo.valley import Valleys
from gradaccord.showcase.landscape.runs import Result

CAUTION = "With --fast all parts ran for a tenth of their time: a preview, not a result."

NO_P = ": no p value can be given for fewer than three seeds or equal differences"


def findings(plane: Result, valley: Valleys, names: Names, glyphs: Glyphs) -> list[str]:
    """Four sentences: the languages trained on, the others, the valley, the plane and characters."""
    return [
        _seen_languages(names),
        _unseen_languages(names),
        valley.sentence,
        _plane_and_glyphs(plane, glyphs),
    ]


def _seen_languages(names: Names) -> str:
    """Is anything better than plain training and than its own control?"""
    baseline, *others = names.comparison.methods
    methods = [own for own in others if not own.is_control and own.seeds]
    seeds = len(baseline.seeds)
    usual = f"{_short(baseline)} ({baseline.average} %)"
    better = [own for own in methods if own.beats_both]
    if better:
        shown = " and ".join(f"{_short(own)} ({_points(own.vs_baseline)})" for own in better)
        found = (
            f"On the twelve languages {shown} beats both {usual} and its own control over {seeds} seeds"
        )
    else:
        found = f"On the twelve languages no method clearly beats both {usual} and its own control"
        found += f" over {seeds} seeds" if names.comparison.tests_with_p else NO_P
    compared = [
        f"{_short(own)} is {_points(own.vs_control)}, against its control"
        for own in methods
        if own.vs_control is not None and own.vs_control.count and own.control != baseline.method
    ]
    return "; ".join([found, *compared, *_more_steps(others)]) + "."


def _more_steps(standings: Sequence[Standing]) -> list[str]:
    """Whether a control, which only takes more steps on drawn tasks, beats the baseline."""
    better = [own for own in standings if own.is_control and own.vs_baseline.clear_gain]
    if not better:
        return []
    best = max(better, key=lambda own: own.vs_baseline.mean)
    return [
        f"what helps is taking more steps: the control {_short(best)}, which steps on every batch or "
        "pair of batches instead of once for a batch of every language, is "
        f"{_points(best.vs_baseline)}, against the baseline"
    ]


def _unseen_languages(names: Names) -> str:
    """Scores on unseen languages, and forgetting with the training losses beside it."""
    standings = [own for own in names.comparison.methods if own.seeds]
    baseline, *others = standings
    scores = {own.method: Mean.of(names.unseen_scores(own.method).values()) for own in standings}
    differences = corrected({own.method: names.unseen_vs_baseline(own.method) for own in others})
    clear = [own for own in others if differences[own.method].clear and not own.is_control]
    if clear:
        shown = ", ".join(f"{_short(own)} ({_points(differences[own.method])})" for own in clear)
        found = f"On unseen languages {shown} differs clearly from {_short(baseline)}"
    else:
        best = max(standings, key=lambda own: scores[own.method].mean)
        seen = [own.smallest_effect for own in differences.values() if not own.no_p]
        found = (
            f"On unseen languages no method differs clearly from {_short(baseline)} "
            f"({scores[baseline.method]} %; highest: {'the control ' if best.is_control else ''}"
            f"{_short(best)}, {scores[best.method]} %"
            + (f"; every test could detect {max(seen):.2f} points)" if seen else ")")
        )
    return f"{found}; {_forgetting(names, standings)}."


def _forgetting(names: Names, standings: Sequence[Standing]) -> str:
    """Which methods forget least and most of the unseen languages, if they differ clearly."""
    lost = {own.method: names.forgotten(own.method, trained=False) for own in standings}
    means = {method: Mean.of(own.values()).mean for method, own in lost.items()}
    order = sorted(standings, key=lambda own: means[own.method])
    least, most = order[0], order[-1]
    low, high = means[least.method], means[most.method]
    pairs = corrected(  # over all pairs, as the two extremes are chosen by their results
        {
            (more.method, less.method): Difference.between(lost[more.method], lost[less.method])
            for i, less in enumerate(order)
            for more in order[i + 1 :]
        }
    )
    if least is most or not pairs[most.method, least.method].clear:
        seen = math.nan if least is most else pairs[most.method, least.method].smallest_effect
        return (
            "what is forgotten of them does not differ clearly (masked-character loss "
            f"{low:+.2f} to {high:+.2f}"
            + (f"; the test could detect {seen:.2f})" if math.isfinite(seen) else ")")
        )
    found = (
        f"{_short(least)} forgets least of them (masked-character loss {low:+.2f}, at a training loss "
        f"of {least.train_loss.mean:.2f}) and {_short(most)} most ({high:+.2f}, at "
        f"{most.train_loss.mean:.2f})"
    )
    if least.train_loss.mean >= max(own.train_loss.mean for own in standings):
        return f"{found}, which says little: {_short(least)} has also learned least"
    return found


def _plane_and_glyphs(plane: Result, glyphs: Glyphs) -> str:
    shares = plane.trapped
    always = [method for method, share in shares.items() if share == 1]
    never = [method for method, share in shares.items() if share == 0]
    ends = [
        f"{len(own)} of {len(shares)} methods {what} end in one task's own optimum ({'; '.join(own)})"
        for what, own in (("always", always), ("never", never))
        if own
    ]
    caught = " and ".join(ends) or "every method ends in one task's own optimum in some runs only"
    gain = glyphs.validated - glyphs.untrained
    effect = "adds" if gain > 0 else "costs"
    return (
        f"On the plane {caught}, and {glyphs.iterations} iterations of MAML take characters "
        f"never seen from {glyphs.before:.0f} % before to {glyphs.after:.0f} ± {glyphs.interval:.0f} % "
        f"after {glyphs.steps} steps on one picture of each; meta-training {effect} "
        f"{abs(gain):.0f} points."
    )


def _short(own: Standing) -> str:
    return Spec.parse(own.method).short


def _points(difference: Difference) -> str:
    """A difference with its corrected p, or why there is none, and what a test could detect."""
    shown = f"{difference.mean:+.2f} points"
    if difference.no_p:
        return f"{shown}, no p: {difference.no_p}"
    shown += f", p {short_p(difference.p_holm)}"
    if difference.clear:
        return shown
    return f"{shown} (the test could detect {difference.smallest_effect:.2f})"
