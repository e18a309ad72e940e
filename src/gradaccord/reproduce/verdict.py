"""What the records of an entry say about its claim, and the status of the entry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from gradaccord.compare.statistics import Difference, Mean, corrected, short_p
from gradaccord.reproduce.differences import (
    ALL,
    Tested,
    current_records,
    differences_of,
    seeds_of,
)
from gradaccord.reproduce.entry import DATA, Design, Entry, Primary, Size
from gradaccord.reproduce.matched import MATCHED, difference_at_equal
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import TRAIN_LOSS, RunRecord
from gradaccord.reproduce.special import trapped
from gradaccord.reproduce.table import interval

# Quantities that less training alone improves.
PROBES = ("cosine", "distance", "masked_lm.*", "masked_lm.seen-*", "masked_lm.unseen-*")
UNDERFIT = 1.1  # times the other's training loss: the arm has learned too little to be compared

Word = Literal[
    "reproduced", "not reproduced", "measured at small scale", "recipe only", "published numbers only",
    "not run",
]  # fmt: skip
Verdict = Literal[
    "holds", "holds in part", "does not hold here", "not testable here", "no test planned", "not run"
]


@dataclass(frozen=True)
class Status:
    """word: the entry's state; verdict: on its claim; result: what was found, in sentences."""

    word: Word
    verdict: Verdict
    result: str
    done: int = 0  # runs that have a record
    planned: int = 0
    primary: Tested | None = None

    @property
    def text(self) -> str:
        """The word, and how many runs there are of those planned, if some are missing."""
        return f"{self.word} ({self.done} of {self.planned} runs)" if self._partly else self.word

    @property
    def _partly(self) -> bool:
        return 0 < self.done < self.planned


def status_of(entry: Entry, results: Path) -> Status:
    """The status by the records of the full setting if there are any, else of the small one."""
    if entry.kind == DATA:
        return Status("published numbers only", "not testable here", "The paper's numbers, as data.")
    size: Size = "full" if current_records(entry, results, "full") else "small"
    if entry.recipe_only and size == "small":
        return Status("recipe only", "not testable here", f"Missing: {entry.recipe_only}.")
    design = entry.design(size)
    records = current_records(entry, results, size)
    planned = plan(entry, size)
    keys = {(record.variant, record.arm, record.budget, record.seed) for record in records}
    done = sum((one.variant, one.arm, one.budget, one.seed) in keys for one in planned)
    if not done:
        return Status("not run", "not run", "Not run.", 0, len(planned))
    if entry.kind == "landscape":
        escapes, at_equal_rates, result = trapped.answer(records)
        verdict: Verdict = "does not hold here"
        if escapes:
            verdict = "holds" if at_equal_rates else "holds in part"
        return Status("measured at small scale", verdict, result, done, len(planned))
    tests = differences_of(design, records)
    primary = next((test for test in tests if test.primary), None)
    own_runs = entry.records_of is None
    word, verdict, result = _decided(design, records, tests, primary, own_runs)
    return Status(word, verdict, result, done, len(planned), primary)


def _decided(
    design: Design,
    records: Sequence[RunRecord],
    tests: Sequence[Tested],
    primary: Tested | None,
    own_runs: bool,
) -> tuple[Word, Verdict, str]:
    """own_runs: whether the runs were made for this entry; another's tests say nothing of its claim."""
    small: Word = "measured at small scale"
    if design.primary is None:
        if own_runs:
            return (small, *_exploratory(design, records, tests))
        return small, "no test planned", "Measured; see the tables and figures."
    if primary is None:
        arm, metric = design.primary.arm, design.primary.metric
        late = sum(one.arm == arm and one.is_bound(metric) for one in records)
        if late:
            return small, "not testable here", (
                f"{late} runs of {arm} never reach the score of {metric!r}, so that nothing is known "
                "of how long they take."
            )  # fmt: skip
        return small, "not run", "The primary test is not run yet."
    fits = unequal_fits(design, records, primary)
    asked = f"Tested: {design.primary.asks}. " if design.primary.asks else ""
    result = asked + sentence(primary) + _fits_sentence(fits)
    if primary.difference.count < design.seeds:
        return small, "not run", (
            f"{result} Runs are missing or without a score ({design.seeds} seeds are planned)."
        )  # fmt: skip
    weak, learned = unlearned(design, records, design.primary)
    if weak:
        what = "so that nothing can be tested" if not learned else "which weakens the test"
        result = f"At this scale {'; '.join(weak)}, {what}. {result}"
    if weak and not learned:
        return small, "not testable here", result
    if _trained_less(fits, primary):
        if design.primary.metric in PROBES:
            return _decided_at_equal_loss(design, records, tests, primary, result)
        if not primary.better:
            return small, "not testable here", (
                f"{result} {primary.arm} has learned its training data less, which alone can explain "
                "it."
            )  # fmt: skip
    if primary.better:
        whole = primary.gain >= design.primary.smallest_effect and not _lost(tests, primary)
        return "reproduced", "holds" if whole else "holds in part", result
    if not math.isfinite(primary.half):
        return small, "not testable here", f"{result} There is no interval to decide by."
    if primary.gain + primary.half < design.primary.smallest_effect:
        return "not reproduced", "does not hold here", (
            f"{result} The interval excludes an effect of {design.primary.smallest_effect:g}."
        )  # fmt: skip
    return small, "not testable here", (
        f"{result} The interval still includes an effect of {design.primary.smallest_effect:g}."
    )  # fmt: skip


def _trained_less(fits: dict[str, float] | None, test: Tested) -> bool:
    return fits is not None and 0 < UNDERFIT * fits[test.against] < fits[test.arm]


def _decided_at_equal_loss(
    design: Design,
    records: Sequence[RunRecord],
    tests: Sequence[Tested],
    primary: Tested,
    result: str,
) -> tuple[Word, Verdict, str]:
    """Less training also forgets less: what counts is the difference at equal loss and score."""
    scope = next(iter(design.variants)) if primary.scope == ALL else primary.scope
    pairs = records, primary.arm, primary.against, primary.metric
    found = {
        matched: difference_at_equal(*pairs, by, scope, primary.budget)
        for by, matched in MATCHED.items()
    }
    if not all(own.count for own in found.values()):
        return "measured at small scale", "not testable here", (
            f"{result} {primary.arm} has trained less, and no pair of runs meets at an equal loss, or "
            "at an equal score above guessing."
        )  # fmt: skip
    for matched, own in found.items():
        result = f"{result} At equal {matched}: {own.with_interval} ({own.count} pairs)."
    gains = [-own.mean if primary.lower else own.mean for own in found.values()]
    if all(own.clear for own in found.values()) and min(gains) > 0:
        least = design.primary.smallest_effect if design.primary else 0.0
        seeds = min(own.count for own in found.values())
        whole = min(gains) >= least and seeds == design.seeds and not _lost(tests, primary)
        return "reproduced", "holds" if whole else "holds in part", result
    least = design.primary.smallest_effect if design.primary else 0.0
    halves = [own.half_interval for own in found.values()]
    if all(gain + half < least for gain, half in zip(gains, halves, strict=True)):
        return "not reproduced", "does not hold here", f"{result} Both exclude an effect of {least:g}."
    return "measured at small scale", "not testable here", (
        f"{result} So the difference at the end can be that of training less."
    )  # fmt: skip


def _lost(tests: Sequence[Tested], primary: Tested) -> bool:
    """Whether the arm is clearly worse than another that it is compared with."""
    return any(
        test.worse
        for test in tests
        if (test.arm, test.scope, test.budget) == (primary.arm, primary.scope, primary.budget)
    )


def _exploratory(
    design: Design, records: Sequence[RunRecord], tests: Sequence[Tested]
) -> tuple[Verdict, str]:
    """Without a primary test: the arms against their controls, or all against the baseline."""
    pairs = set(design.controls.items())
    wanted = [test for test in tests if (test.arm, test.against) in pairs] if pairs else list(tests)
    tested = [test for test in wanted if math.isfinite(test.difference.p)]
    if not tested:
        return "no test planned", "Measured; see the table."
    better = sum(test.better for test in tested)
    lost = [test for test in tested if test.worse]
    less = sum(_trained_less(unequal_fits(design, records, test), test) for test in lost)
    worse = len(lost) - less
    least = [test.detectable for test in tested]
    reach = f"{min(least):.1f}" if len(least) == 1 else f"{min(least):.1f} to {max(least):.1f}"
    result = (
        f"Exploratory: of {len(tested)} differences {better} clearly better, {worse} clearly worse"
        f"{f', and {less} that trained less' if less else ''}; "
        f"the tests detect differences of {reach} four times in five."
    )
    if better == len(tested):
        return "holds", result
    if better:
        return "holds in part", result
    return "does not hold here" if worse else "not testable here", result


def sentence(test: Tested) -> str:
    """A test in words."""
    own = test.difference
    p = f"no p: {own.no_p}" if own.no_p else f"p {short_p(own.p_holm)}"
    pairs = f"{own.count} pair{'' if own.count == 1 else 's'}"
    least = test.detectable
    power = f"; detected four times in five: {least:.2f}" if math.isfinite(least) else ""
    return f"{test.arm} − {test.against}: {interval(test)} ({test.metric}, {pairs}, {p}{power})."


def unequal_fits(design: Design, records: Sequence[RunRecord], test: Tested) -> dict[str, float] | None:
    """The last training losses of a test's arms if they differ clearly and by over 1 %, else None."""
    losses = {
        arm: seeds_of(records, test.scope, test.budget, arm, TRAIN_LOSS, list(design.variants))
        for arm in (test.arm, test.against)
    }
    if not corrected({"": Difference.between(*losses.values())})[""].clear:
        return None
    means = {arm: fmean(own.values()) for arm, own in losses.items()}
    return means if max(means.values()) > 1.01 * min(means.values()) else None


def _fits_sentence(fits: dict[str, float] | None) -> str:
    if fits is None:
        return ""
    ends = " and ".join(f"{loss:.3f} ({arm})" for arm, loss in fits.items())
    return f" Their last training losses differ clearly: {ends}."


def unlearned(design: Design, records: Sequence[RunRecord], primary: Primary) -> tuple[list[str], int]:
    """Where plain training does not beat guessing by two standard errors, and how often it does."""
    budget = primary.budget or next(iter(design.budgets))
    ran = {one.arm for one in records if one.budget == budget}
    arm = design.baseline if design.baseline in ran else primary.against
    weak, learned = [], 0
    for variant in design.variants:
        if primary.variant not in (None, variant):
            continue
        own = [one for one in records if (one.variant, one.budget, one.arm) == (variant, budget, arm)]
        for task in own[0].trained if own else ():
            guess = max(own[0].chance.get(task, {}).values(), default=-math.inf)
            mean = Mean.of(one.value(task) for one in own)
            error = mean.error if math.isfinite(mean.error) else 0.0
            if math.isfinite(guess) and not mean.mean > guess + 2 * error:
                weak.append(f"{arm} does not learn {task} ({mean.text(1)}, guessing {guess:.1f})")
            else:
                learned += 1
    return weak, learned


def command(entry: Entry) -> str:
    """The command that runs an entry."""
    if entry.small is None:
        return f"gradaccord reproduce {entry.name}"
    data = " --data DIR" if entry.small.needs else ""
    return f"gradaccord reproduce {entry.name} --small{data}"
