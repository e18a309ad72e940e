"""Recorded few-shot runs in a Markdown page: a table beside published numbers, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradaccord.meta.figures import validation_figure, write
from gradaccord.meta.records import FewShotRecord, read_records
from gradaccord.runs.escape import markdown
from gradaccord.runs.files import folder_name, write_atomic

BEGIN, END = "<!-- results: gradaccord fewshot docs -->", "<!-- end of results -->"
# Accuracy in percent by method, data, ways, shots and whether it is transductive.
PUBLISHED = {
    ("reptile", "omniglot", 5, 1, False): 95.39,
    ("reptile", "omniglot", 5, 5, False): 98.90,
    ("maml", "omniglot", 5, 1, True): 98.7,
    ("fomaml", "omniglot", 5, 1, True): 98.3,
    ("dotprod-inner", "omniglot", 5, 1, False): 97.58,
    ("dotprod-inner", "omniglot", 5, 5, False): 99.58,
    ("dotprod-outer", "omniglot", 5, 1, False): 97.58,
    ("dotprod-outer", "omniglot", 5, 5, False): 99.58,
}


def results_section(records: Sequence[FewShotRecord]) -> str:
    """The table of all tests, and a curve for each kind of task; empty without records."""
    if not records:
        return ""
    curves = [f"![Validation accuracy, {name}](figures/{name}.png)" for name in _groups(records)]
    return "\n".join([results_table(records), "", *curves])


def results_table(records: Sequence[FewShotRecord]) -> str:
    """Every test of the runs, beside the published number."""
    lines = [
        "| Learner | data | ways, shots | transductive | ours, % | published, % | seed | iterations "
        "| core-hours |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    names = names_of(records)
    for record, name in zip(records, names, strict=True):
        s = record.settings
        for test in record.tests:
            key = (s.label, s.data, s.ways, test.shots, test.transductive)
            published = f"{PUBLISHED[key]:g}" if key in PUBLISHED else ""
            unfinished = "" if record.finished else " (unfinished)"
            lines.append(
                f"| {markdown(name)} | {markdown(s.data)} | {s.ways}, {test.shots} "
                f"| {'yes' if test.transductive else 'no'} | {test.accuracy:.2f} ± {test.interval:.2f} "
                f"| {published} | {record.seed} "
                f"| {record.iterations:,}{unfinished} | {_core_hours(record)} |"
            )
    return "\n".join([*lines, "", "± is half of the 95 % interval over test tasks."])


def write_results(page: Path, folder: Path) -> list[Path]:
    """Put the records of a folder between the page's two marks, and draw the curves beside it."""
    records = read_records(folder)
    before, after = _around(page)
    section = results_section(records)
    write_atomic(page, before + BEGIN + "\n" + (f"\n{section}\n\n" if section else "") + END + after)
    written = [page]
    for name, group in _groups(records).items():
        curves: dict[str, list[list[tuple[int, float, float]]]] = {}
        for record, label in zip(group, names_of(group), strict=True):
            curves.setdefault(label, []).append(record.curve)
        s = group[0].settings
        title = f"{s.data}, {s.ways} ways, {s.shots} shot{'s' if s.shots > 1 else ''}"
        figure = validation_figure(curves, title, chance=100 / s.ways)
        written.append(write(figure, page.parent / "figures" / f"{name}.png"))
    return written


def names_of(records: Sequence[FewShotRecord]) -> list[str]:
    """The learner of each record, with its inner rate where records of a learner differ in it."""
    rates: dict[str, set[float]] = {}
    for record in records:
        rates.setdefault(record.settings.label, set()).add(record.settings.inner_lr)
    return [
        f"{s.label}, inner rate {s.inner_lr:g}" if len(rates[s.label]) > 1 else s.label
        for s in (record.settings for record in records)
    ]


def _core_hours(record: FewShotRecord) -> str:
    if record.core_hours is not None:
        return f"{record.core_hours:.2f}"
    return f"not recorded (training took {record.training_hours:.2f} h)"


def _groups(records: Sequence[FewShotRecord]) -> dict[str, list[FewShotRecord]]:
    """Runs whose validation curves belong in one figure, by its name."""
    found: dict[str, list[FewShotRecord]] = {}
    for record in records:
        s = record.settings
        mode = "-transductive" if s.transductive else ""
        name = folder_name(f"results-{Path(s.data).stem}-{s.ways}way-{s.shots}shot{mode}")
        found.setdefault(name, []).append(record)
    return found


def _around(page: Path) -> tuple[str, str]:
    """What stands before and after the results."""
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(
            f"{page} has no place for the results: put the lines {BEGIN} and {END} into it."
        )
    return text.partition(BEGIN)[0], text.partition(END)[2]
