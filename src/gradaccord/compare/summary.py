"""Turns finished runs into a `Comparison`: scores, differences, costs over seeds, and findings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gradaccord.compare.budget import EqualBudget
from gradaccord.compare.comparison import AVERAGE, UNSEEN, Comparison, Costs, NoSkill, Standing
from gradaccord.compare.processes import WANTED, Run
from gradaccord.compare.specs import Spec, short_names
from gradaccord.compare.statistics import PAIRS, Difference, Mean, corrected
from gradaccord.methods.registry import ADDITIONS, BASELINE
from gradaccord.runs.files import CONFIG
from gradaccord.runs.results import Results
from gradaccord.train.config import Config
from gradaccord.train.config_file import read_own_config

COLLAPSE = 0.5  # of the baseline's average score: a run below it has not learned

Scores = Mapping[str, Mapping[int, float]]  # task -> seed -> main metric


def summarise(runs: Sequence[Run]) -> Comparison:
    """Statistics over the seeds that finished; on test where all tasks have it, else on dev."""
    first = next((run.results for run in runs if run.results is not None), None)
    if first is None:
        failures = [f"{run.spec} seed {run.seed} {run.failure}" for run in runs if run.failure]
        raise ValueError("No run finished: " + ("; ".join(failures[:3]) or "none was started") + ".")
    split = first.split
    by_spec: dict[Spec, list[Run]] = {}
    for run in runs:
        by_spec.setdefault(run.spec, []).append(run)
    results = {
        spec: {run.seed: run.results for run in own if run.results is not None}
        for spec, own in by_spec.items()
    }
    scores = {spec: scores_by_seed(own, split) for spec, own in results.items()}
    baseline = next(iter(by_spec))
    comparison = Comparison(
        split=split,
        budget=EqualBudget.of(runs[0].config.train),
        tasks=tuple(first.scores(split)),
        metrics=first.metrics,
        methods=tuple(
            _standing(spec, by_spec[spec], results, scores, baseline, split) for spec in by_spec
        ),
        references=_references(first, split),
    )
    comparison = _with_corrected_p(comparison)
    texts = {
        "remarks": remarks(comparison),
        "findings": (*findings(comparison), *unlearned(comparison)),
    }
    return comparison.model_copy(update=texts)


def scores_by_seed(results: Mapping[int, Results], split: str) -> dict[str, dict[int, float]]:
    """Task -> seed -> main metric, and the averages. results: by seed."""
    found: dict[str, dict[int, float]] = {AVERAGE: {}}
    for seed, own in results.items():
        for task, value in own.main_scores(split).items():
            found.setdefault(task, {})[seed] = value
        found[AVERAGE][seed] = own.average(split)
        if math.isfinite(own.unseen_average(split)):
            found.setdefault(UNSEEN, {})[seed] = own.unseen_average(split)
    return found


def runs_in(folders: Iterable[Path]) -> list[Run]:
    """The runs in the folders of a comparison that was cut short, as far as they got.

    The runs of a method, in one folder, differ by their seed alone: one configuration is read.
    """
    configs: dict[Path, Config] = {}
    read: dict[Path, Config] = {}
    for own in folders:
        given = next((own / name for name in (WANTED, CONFIG) if (own / name).exists()), None)
        if given is not None:
            if own.parent not in read:
                read[own.parent] = read_own_config(given)
            configs[own] = read[own.parent]
    if not configs:
        return []
    added = {own: [term.name for term in config.regularize] for own, config in configs.items()}
    for own, config in configs.items():
        if config.train.optimizer.name in ADDITIONS:
            added[own].append(config.train.optimizer.name)
    common = set.intersection(*map(set, added.values()))  # the file's own, not a method's
    usual = statistics.mode(config.train.lr for config in configs.values())
    runs = []
    for own, config in configs.items():
        terms = tuple(name for name in added[own] if name not in common)
        rate = round(config.train.lr / usual, 6)
        spec = Spec(config.method.name, tuple(config.method.options.items()), terms, rate)
        results = Results.read(own) if Results.exists(own) else None
        begun = (own / CONFIG).exists() or any(own.glob(f"*/{CONFIG}"))
        failure = None if results is not None else "not finished" if begun else "not started"
        seed = int(own.name.removeprefix("seed-")) if results is None else results.seed
        runs.append(Run(spec, seed, own, config, results, failure))
    return sorted(runs, key=lambda run: run.spec != Spec(BASELINE))


def remarks(comparison: Comparison) -> tuple[str, ...]:
    """How to read the table, and which runs are not in it."""
    found = [
        f"Scores are in percent on {comparison.split}, mean ± standard error over seeds. Differences "
        f"are paired by seed, with p of a t-test; {comparison.verdicts_by}. There is no p for fewer "
        f"than {PAIRS} pairs of seeds or equal differences. Where nothing is clear, the table has the "
        "smallest true difference that the test would find four times in five. Costs are relative to "
        "the baseline."
    ]
    if comparison.budget is not None:
        found.append(comparison.budget.sentence)
    if comparison.references:
        found.append(
            "Chance is a random guess, majority always the same prediction; * marks a method that "
            "predicts one class or is not above majority by two standard errors at that number of "
            "examples."
        )
    for own in comparison.methods:
        for task in own.marks:
            found.append(f"* {own.method}, {task}: {own.mark(task)}.")
    return (*found, *lost_runs(comparison))


def lost_runs(comparison: Comparison) -> list[str]:
    """Runs that are not in the means, and those that did not learn."""
    found = []
    for own in comparison.methods:
        for seed, reason in own.missing.items():
            found.append(f"Missing: {own.method}, seed {seed}: {reason}.")
        if own.collapsed:
            shown = ", ".join(map(str, own.collapsed))
            found.append(f"{own.method} did not learn on seed {shown}: its cosines mean nothing there.")
    return found


def findings(comparison: Comparison) -> tuple[str, ...]:
    """What the numbers say, by corrected p values, in a sentence or two; also when they say nothing."""
    baseline = comparison.baseline
    if not comparison.tests:
        return (f"Only {baseline.method} was run: there is nothing to compare it with.",)
    if not comparison.tests_with_p:
        return (
            f"No p value can be given: it takes {PAIRS} seeds of a method and of {baseline.method}, "
            "and differences that vary; nothing here can be called better or worse.",
        )
    others = [own for own in comparison.methods[1:] if not own.is_control and own.seeds]
    better = [own for own in others if own.beats_both]
    worse = [own for own in others if own.vs_baseline.clear and not own.vs_baseline.clear_gain]
    controls = [own for own in comparison.methods if own.is_control and own.vs_baseline.clear_gain]
    usual = short_names(own.method for own in comparison.methods)
    found = f"No method is clearly better than both {usual[baseline.method]} and its own control"
    if better:
        found = f"Clearly better than both {usual[baseline.method]} and its own control: "
        found += _named(better, usual)
    elif controls:
        found += (
            f"; only controls, the same steps without a method's idea, are clearly better than "
            f"{usual[baseline.method]}: {_named(controls, usual)}"
        )
    if worse:
        found += f"; clearly worse than {usual[baseline.method]}: {_named(worse, usual)}"
    return (f"{found}.", _reach(comparison))


def unlearned(comparison: Comparison) -> list[str]:
    """What to do first if the baseline has learned nothing on any seed."""
    baseline = comparison.baseline
    tasks = [task for task, marks in baseline.marks.items() if len(marks) == len(baseline.seeds)]
    if not tasks:
        return []
    return [
        f"{short_names([baseline.method])[baseline.method]} itself is on no seed clearly better than a "
        f"constant prediction on {', '.join(tasks)}: train longer (train.epochs), at a higher rate "
        "(train.lr) or on more examples before comparing methods."
    ]


def _reach(comparison: Comparison) -> str:
    """How small a difference the tests could have found."""
    effects = [own.smallest_effect for own in comparison.tests.values()]
    known = sorted(effect for effect in effects if math.isfinite(effect))
    low, high = f"{known[0]:.1f}", f"{known[-1]:.1f}"
    shown = f"{low} points" if low == high else f"{low} to {high} points, depending on the method,"
    return (
        f"With {len(comparison.baseline.seeds)} seeds a true difference of {shown} is detected four "
        "times in five; smaller ones may be missed."
    )


def _named(standings: Sequence[Standing], short: Mapping[str, str]) -> str:
    return ", ".join(f"{short[own.method]} ({own.vs_baseline.mean:+.2f} points)" for own in standings)


def _standing(
    spec: Spec,
    runs: Sequence[Run],
    results: Mapping[Spec, Mapping[int, Results]],
    scores: Mapping[Spec, Scores],
    baseline: Spec,
    split: str,
) -> Standing:
    own, theirs = results[spec], results[baseline]
    average = scores[spec][AVERAGE]
    control = _strongest([other for other in spec.controls() if other in scores], scores)
    usual = Mean.of(scores[baseline][AVERAGE].values()).mean
    least = COLLAPSE * usual if usual > 0 else -math.inf  # losses count as negative scores
    return Standing(
        method=str(spec),
        is_control=spec.is_control,
        seeds=tuple(sorted(own)),
        scores={task: Mean.of(values.values()) for task, values in scores[spec].items()},
        vs_baseline=Difference.between(average, scores[baseline][AVERAGE]),
        control=None if control is None else str(control),
        vs_control=None if control is None else Difference.between(average, scores[control][AVERAGE]),
        train_loss=Mean.of(one.train_loss for one in own.values()),
        cosine=Mean.of(one.last.task_cosine.mean for one in own.values() if one.last.task_cosine),
        distance=Mean.of(one.last.distance.total for one in own.values() if one.last.distance),
        collapsed=tuple(sorted(s for s, value in average.items() if value < least)),
        costs=Costs(**{cost: _relative(own, theirs, cost) for cost in Costs.model_fields}),
        missing={run.seed: run.failure or "not run" for run in runs if run.results is None},
        marks=_marks(own, split),
    )


def _marks(results: Mapping[int, Results], split: str) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for seed, own in sorted(results.items()):
        for task in own.scores(split):
            known = own.reference(task, split)
            if known is not None and known.mark:
                found.setdefault(task, {})[seed] = known.mark
    return found


def _references(results: Results, split: str) -> dict[str, NoSkill]:
    """What no skill scores on each task and, where all of its tasks are known, on average."""
    known = {task: results.reference(task, split) for task in results.scores(split)}
    found = {
        task: NoSkill(chance=own.chance, majority=own.majority)
        for task, own in known.items()
        if own is not None
    }
    unseen = [task for task in known if task not in results.trained]
    for name, tasks in ((AVERAGE, results.trained), (UNSEEN, unseen)):
        if tasks and all(task in found for task in tasks):
            found[name] = NoSkill(
                chance=statistics.fmean(found[task].chance for task in tasks),
                majority=statistics.fmean(found[task].majority for task in tasks),
            )
    return found


def _strongest(controls: Sequence[Spec], scores: Mapping[Spec, Scores]) -> Spec | None:
    """The control with the best average over common seeds: the one that has to be beaten.

    One without a score only if there is no other: a method that it was planned for has not beaten it.
    """
    finite = {
        spec: {seed: value for seed, value in scores[spec][AVERAGE].items() if math.isfinite(value)}
        for spec in controls
    }
    for least in (PAIRS, 1):
        known = [spec for spec in controls if len(finite[spec]) >= least]
        if known:
            break
    else:
        return next(iter(controls), None)
    common = set.intersection(*(set(finite[spec]) for spec in known))
    return max(
        known, key=lambda spec: statistics.fmean(finite[spec][seed] for seed in common or finite[spec])
    )


def _with_corrected_p(comparison: Comparison) -> Comparison:
    """The comparison with p values that are corrected for all tests together."""
    tests = corrected(comparison.tests)
    base = comparison.baseline.method
    methods = [
        own.model_copy(
            update={
                "vs_baseline": tests.get((own.method, base), own.vs_baseline),
                "vs_control": None if own.control is None else tests[own.method, own.control],
            }
        )
        for own in comparison.methods
    ]
    return comparison.model_copy(update={"methods": tuple(methods)})


def _relative(own: Mapping[int, Results], theirs: Mapping[int, Results], cost: str) -> float:
    """The median over seeds of ours over theirs."""
    pairs = [(own[seed].cost, theirs[seed].cost) for seed in own if seed in theirs]
    known = [(getattr(ours, cost), getattr(base, cost)) for ours, base in pairs]
    ratios = [ours / usual for ours, usual in known if usual and ours is not None]
    return statistics.median(ratios) if ratios else math.nan
