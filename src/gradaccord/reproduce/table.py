"""The tables of an entry: scores beside the published ones, differences with tests, cost, probes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gradaccord.compare.comparison import AVERAGE, UNSEEN
from gradaccord.compare.statistics import Mean, short_p
from gradaccord.reproduce.differences import ALL, Tested, differences_of, has_mean, number, seeds_of
from gradaccord.reproduce.entry import MAIN, Design, Entry, Published, Size
from gradaccord.reproduce.grid import NONE, Grid
from gradaccord.reproduce.matched import matched_tables
from gradaccord.reproduce.records import OVERALL, Errors, RunRecord
from gradaccord.reproduce.speed_up import speed_up_tables

TESTS_NOTE = (
    "Differences are paired by seed, with 95 % intervals over seeds, all scored on the same examples. "
    "p: corrected by Holm for all tests of the entry. Detectable: the smallest true difference that "
    "the test finds four times in five."
)
PRIMARY_NOTE = "* the primary test. All others are exploratory."
EXPLORATORY_NOTE = "All tests are exploratory."


@dataclass(frozen=True)
class Row:
    """An arm's records on a variant at a budget."""

    variant: str
    budget: str
    arm: str
    records: tuple[RunRecord, ...]

    def mean(self, metric: str) -> Mean:
        """The mean over seeds."""
        return Mean.of(record.value(metric) for record in self.records)


def tables(entry: Entry, records: Sequence[RunRecord], size: Size = "small") -> list[Grid]:
    """All tables of an entry; without records, only the published numbers."""
    design = entry.small if size == "small" else entry.full
    if design is None or not records:
        return published_tables(entry)
    found = []
    rows = list(_rows(design, records))
    for variant in design.variants:
        for budget in design.budgets:
            own = [row for row in rows if (row.variant, row.budget) == (variant, budget)]
            if not own:
                continue
            title = _title(design, variant, budget, own)
            if len(design.arms) == 1:
                found.append(_tasks(title, own[0]))
                found += _errors(own[0])
            else:
                found.append(_scores(entry, title, own))
                found += [table for row in own if entry.errors for table in _errors(row)]
            found.append(_costs(own))
    if has_mean(design) and len(design.arms) > 1:
        found += _means(design, records)
    tests = differences_of(design, records)
    found += [tests_table(design, tests)] if tests else []
    return [*found, *matched_tables(design, records), *speed_up_tables(design, records)]


def published_tables(entry: Entry) -> list[Grid]:
    """The paper's numbers, and beside them ours where they come from elsewhere."""
    published, ours = entry.published, entry.ours
    names = dict.fromkeys([*published.rows, *(ours.rows if ours else ())])
    if not names:
        return []
    columns = [f"published {name}" for name in published.columns]
    columns += [f"ours {name}" for name in ours.columns] if ours else []
    rows = [
        (name, *_printed(published, name), *(_printed(ours, name) if ours else ())) for name in names
    ]
    sources = f"Published: {published.source}." + (f" Ours: {ours.source}." if ours else "")
    note = " ".join(one.note for one in (published, ours) if one is not None and one.note)
    return [Grid(sources, ("", *columns), tuple(rows), note)]


def _printed(published: Published, name: str) -> list[str]:
    """A published row as text; dashes where there is none."""
    given = published.rows.get(name, (None,) * len(published.columns))
    return [NONE if value is None else f"{value:g}" for value in given]


def tests_table(design: Design, tests: Sequence[Tested]) -> Grid:
    """Every difference with interval, corrected p, and what the test could have detected."""
    several, budgets = len(design.variants) > 1, len(design.budgets) > 1
    headings = ["difference of", "to", *(["on"] if several else []), *(["budget"] if budgets else [])]
    rows = []
    for test in tests:
        where = [*([test.scope] if several else []), *([test.budget] if budgets else [])]
        rows.append(
            (
                ("* " if test.primary else "") + test.arm, test.against, *where,
                str(test.difference.count), interval(test), _p(test), number(test.detectable),
            )
        )  # fmt: skip
    metric = f"Differences of {tests[0].metric}" + (", lower is better" if tests[0].lower else "")
    note = PRIMARY_NOTE if any(test.primary for test in tests) else EXPLORATORY_NOTE
    return Grid(
        metric, (*headings, "pairs", "difference", "p", "detectable"), tuple(rows),
        f"{TESTS_NOTE} {note}",
    )  # fmt: skip


def interval(test: Tested) -> str:
    """The difference and its 95 % interval."""
    mean, half = test.difference.mean, test.half
    if not math.isfinite(half):
        return number(mean, sign=True)
    return f"{mean:+.2f} [{mean - half:.2f}, {mean + half:.2f}]"


def _p(test: Tested) -> str:
    return test.difference.no_p or short_p(test.difference.p_holm)


def _rows(design: Design, records: Sequence[RunRecord]) -> Iterator[Row]:
    for variant in design.variants:
        for budget in design.budgets:
            for arm in design.arms:
                own = [
                    record
                    for record in records
                    if (record.variant, record.budget, record.arm) == (variant, budget, arm)
                ]
                if own:
                    yield Row(variant, budget, arm, tuple(own))


def _title(design: Design, variant: str, budget: str, rows: Sequence[Row]) -> str:
    counts = sorted({len(row.records) for row in rows})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    seeds += " seed" if seeds == "1" else " seeds"
    parts = [variant if variant != MAIN else "", rows[0].records[0].split, seeds]
    if len(design.budgets) > 1:
        parts.insert(1, f"equal {budget}")
    return ", ".join(part for part in parts if part) + ", mean ± standard error"


def _scores(entry: Entry, title: str, rows: Sequence[Row]) -> Grid:
    """One row per arm, then the published rows of other names, then the scores of guessing."""
    published = entry.published
    first = rows[0].records[0]
    columns: list[tuple[str, str]] = [(_named(first, task), task) for task in first.tasks]
    if len(first.trained) > 1:
        columns.append((AVERAGE, AVERAGE))
        setting_metric = entry.small.primary.metric if entry.small and entry.small.primary else ""
        if OVERALL in (setting_metric, *published.columns):
            columns.append((OVERALL, OVERALL))
    if len(first.unseen) > 1:
        columns.append((UNSEEN, UNSEEN))

    lines = [
        (row.arm, *(row.mean(metric).text(1) for _, metric in columns), *_printed(published, row.arm))
        for row in rows
    ]
    arms = {row.arm for row in rows}
    lines += [
        (name, *(NONE for _ in columns), *_printed(published, name))
        for name in published.rows
        if name not in arms
    ]
    blank = [NONE] * len(published.columns)
    guesses = dict.fromkeys(kind for own in first.chance.values() for kind in own)
    for kind in guesses:
        values = [first.chance.get(task, {}).get(kind, math.nan) for _, task in columns]
        lines.append((kind, *(number(value, 1) for value in values), *blank))
    printed_columns = [f"published {name}" for name in published.columns]
    return Grid(title, ("", *(name for name, _ in columns), *printed_columns), tuple(lines))


def _named(record: RunRecord, task: str) -> str:
    return f"{task} {record.metrics[task]}"


def _means(design: Design, records: Sequence[RunRecord]) -> list[Grid]:
    """The mean over all variants, of seeds that every variant has; none if no arm has any."""
    metric = design.primary.metric if design.primary else AVERAGE
    lines = []
    for arm in design.arms:
        cells = []
        for budget in design.budgets:
            values = seeds_of(records, ALL, budget, arm, metric, list(design.variants))
            mean = Mean.of(values.values())
            cells.append(f"{mean.text(2)} ({mean.count})" if mean.count else NONE)
        lines.append((arm, *cells))
    if all(set(cells) == {NONE} for _, *cells in lines):
        return []
    headings = [f"equal {budget}" for budget in design.budgets]
    return [Grid(f"Mean of all variants: {metric} (seeds)", ("", *headings), tuple(lines))]


def _tasks(title: str, row: Row) -> Grid:
    """The scores of a single arm: one row per task, one column per metric."""
    first = row.records[0]
    metrics = list(dict.fromkeys(name for own in first.scores.values() for name in own))
    lines = [(task, *(row.mean(f"{task}.{name}").text(1) for name in metrics)) for task in first.tasks]
    return Grid(f"{row.arm}: {title}", ("", *metrics), tuple(lines))


def _costs(rows: Sequence[Row]) -> Grid:
    """What the runs cost, and what was measured beside the scores."""
    probes = list(dict.fromkeys(name for row in rows for name in row.records[0].probes))
    columns: list[tuple[str, int, Callable[[RunRecord], float]]] = [
        ("training loss", 3, lambda record: record.train_loss),
        ("batch gradients", 0, lambda record: record.cost.gradients),
        ("processor min", 1, lambda record: (record.cost.cpu_seconds or math.nan) / 60),
        ("memory MB", 0, lambda record: record.cost.memory_mb),
        *((name, 3, lambda record, name=name: record.probes.get(name, math.nan)) for name in probes),
    ]
    lines = [
        (
            row.arm,
            *(
                number(Mean.of(read(record) for record in row.records).mean, digits)
                for _, digits, read in columns
            ),
        )
        for row in rows
    ]
    return Grid("Cost and probes, means", ("", *(name for name, _, _ in columns)), tuple(lines))


def _errors(row: Row) -> list[Grid]:
    """The errors of an arm: how many there are, and how many lie next to the true class."""
    lines = []
    for task in row.records[0].errors:
        own = [record.errors[task] for record in row.records if task in record.errors]
        wrong, near = sum(one.wrong for one in own), sum(map(_near, own))
        examples = sum(one.examples for one in own)
        near_text = f"{100 * near / wrong:.1f} %" if wrong and math.isfinite(near) else NONE
        numbers = own[0].histogram is not None  # of which hardly one is exactly right
        share = NONE if numbers else f"{100 * wrong / max(examples, 1):.1f} %"
        lines.append((task, f"{examples}", share, near_text))
    if not lines:
        return []
    headings = ("", "examples, all seeds", "wrong", "of these in the next class")
    where = f"{row.variant}, " if row.variant != MAIN else ""
    return [Grid(f"{where}{row.arm}: errors", headings, tuple(lines))]


def _near(errors: Errors) -> float:
    """Errors between neighbouring classes; NaN where there are only two, or none."""
    confusion = errors.confusion
    if confusion is None or len(confusion.labels) < 3:
        return math.nan
    counts = confusion.counts
    return sum(counts[i][j] for i in range(len(counts)) for j in (i - 1, i + 1) if 0 <= j < len(counts))
