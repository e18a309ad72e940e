"""The pages `docs/results.md` and `docs/claims.md`, made of entries and records alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from gradaccord.compare.statistics import short_p
from gradaccord.reproduce.differences import current_records
from gradaccord.reproduce.entry import PAPERS, Entry, Size
from gradaccord.reproduce.figures import FIGURES, Drawn
from gradaccord.reproduce.records import RunRecord
from gradaccord.reproduce.status import Status, command, status_of
from gradaccord.reproduce.table import interval, tables
from gradaccord.runs.files import write_atomic

RESULTS, CLAIMS = "results.md", "claims.md"
MADE = "Made by `gradaccord reproduce --write-docs` from the records in `results/`. Do not edit it."


def write_docs(entries: Mapping[str, Entry], results: Path, docs: Path) -> list[Path]:
    """Write both pages and their figures; the files that were written."""
    (docs / "figures").mkdir(parents=True, exist_ok=True)
    written = []
    for drawn in drawings(entries, results):
        written.append(docs / "figures" / drawn.file)
        drawn.save(written[-1])
    for name, text in pages(entries, results).items():
        written.append(docs / name)
        write_atomic(written[-1], text)
    return written


def pages(entries: Mapping[str, Entry], results: Path) -> dict[str, str]:
    """File name -> text."""
    found = {name: status_of(entry, results) for name, entry in entries.items()}
    return {
        RESULTS: "\n".join(_results(entries, found, results)) + "\n",
        CLAIMS: "\n".join(_claims(entries, found)) + "\n",
    }


def drawings(entries: Mapping[str, Entry], results: Path) -> list[Drawn]:
    """The figures for which there are records."""
    made = (draw(entries, results) for draw in FIGURES)
    return [drawn for drawn in made if drawn is not None]


def _results(entries: Mapping[str, Entry], found: Mapping[str, Status], results: Path) -> Iterator[str]:
    run = [name for name, status in found.items() if status.done]
    yield from ("# Results", "", MADE, "")
    yield (
        "Every number here is measured on two cores in the small setting of its entry, which names "
        "what it puts in place of the published models and data. The plan, with the primary tests, was "
        "written before the runs: [results/PLAN.md](../results/PLAN.md). What the papers claim and "
        "what came of it is in [claims.md](claims.md)."
    )
    yield ""
    yield f"{len(run)} of {len(entries)} entries have runs; the others are listed at the end."
    yield from ("", "## Primary tests", "")
    yield from _primary(entries, found)
    figures = {drawn.entry: drawn for drawn in drawings(entries, results)}
    if "" in figures:
        yield from (figures[""].markdown, "")
    for paper, names in groupby(run, key=lambda name: entries[name].paper):
        yield from (f"## {PAPERS[paper]}", "")
        for name in names:
            yield from _entry(entries[name], found[name], results)
            if name in figures:
                yield from (figures[name].markdown, "")
    yield from ("## Without runs", "", "| entry | what | status | command |", "|---|---|---|---|")
    for name, entry in entries.items():
        if name not in run:
            status = found[name]
            reason = f"{status.text}: {entry.recipe_only}" if entry.recipe_only else status.text
            yield f"| {name} | {entry.title} | {reason} | `{command(entry)}` |"


def _primary(entries: Mapping[str, Entry], found: Mapping[str, Status]) -> Iterator[str]:
    yield (
        "One test an entry, named before the runs. Gains are paired by seed, with 95 % intervals; p is "
        "corrected by Holm for all tests of the entry; *seen* is the smallest true difference that the "
        "test finds four times in five."
    )
    yield ""
    yield "| entry | test | difference | p | seen | worth having | verdict |"
    yield "|---|---|---|---|---|---|---|"
    for name, entry in entries.items():
        chosen, status = entry.small.primary if entry.small else None, found[name]
        if chosen is None:
            continue
        test = f"{chosen.arm} against {chosen.against}, {chosen.metric}"
        test += ", lower is better" if chosen.better == "lower" else ""
        cells = ["–", "–", "–"]
        if status.primary is not None:
            own = status.primary.difference
            seen = f"{status.primary.seen:.2f}" if math.isfinite(status.primary.seen) else "–"
            cells = [interval(status.primary), own.no_p or short_p(own.p_holm), seen]
        link = f"[{name}](#{name})" if status.done else name
        row = [link, test, *cells, f"{chosen.smallest_effect:g}", status.verdict]
        yield "| " + " | ".join(row) + " |"
    yield ""


def _entry(entry: Entry, status: Status, results: Path) -> Iterator[str]:
    size: Size = "full" if current_records(entry, results, "full") else "small"
    setting, records = entry.setting(size), current_records(entry, results, size)
    yield from (f"### {entry.name}", "", f"**{entry.title}.** {entry.claim}", "")
    yield f"Status: {status.text}. {status.result}"
    yield ""
    yield f"`{command(entry)}` ({_origin(records)})"
    yield ""
    if entry.published.rows or entry.published.note:
        note = f" {entry.published.note}" if entry.published.note else ""
        rest = "" if entry.published.complete else " Other numbers of it were not at hand."
        yield from (f"Published: {entry.published.source}.{note}{rest}", "")
    for label, lines in (
        ("In place of the published setting", setting.substitutions),
        ("Not stated in the paper", entry.full.unstated if entry.full else ()),
    ):
        if lines:
            yield from (f"{label}: {'; '.join(lines)}.", "")
    for table in tables(entry, records, size):
        yield from (*table.markdown(), "")


def _origin(records: list[RunRecord]) -> str:
    commits = sorted({(record.commit or "unknown")[:10] for record in records})
    hours = math.fsum((record.cost.cpu_seconds or 0.0) for record in records) / 3600
    plural = "" if len(records) == 1 else "s"
    return f"{len(records)} run{plural}, {hours:.2f} core-hours, commit {', '.join(commits)}"


def _claims(entries: Mapping[str, Entry], found: Mapping[str, Status]) -> Iterator[str]:
    yield from ("# Claims", "", MADE, "")
    yield (
        "What the papers claim, and what came of it at the scale of two cores. A claim **holds** if "
        "the primary test of its entry finds it and the gain is worth having, **in part** if the gain "
        "is smaller or another control does better. It **does not hold here** if the interval leaves "
        "out an effect worth having; it is **not testable here** if the interval still holds one, if "
        "plain training learns nothing at this scale, or if data is missing. Without a primary test "
        "the verdict is exploratory. Details are in [results.md](results.md)."
    )
    for paper, own in groupby(entries.values(), key=lambda entry: entry.paper):
        yield from ("", f"## {PAPERS[paper]}", "")
        yield "| claim | their evidence | our test | result | verdict |"
        yield "|---|---|---|---|---|"
        for entry in own:
            status = found[entry.name]
            row = [entry.claim, _evidence(entry), f"`{command(entry)}`", status.result, status.verdict]
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _evidence(entry: Entry) -> str:
    """The source, with its numbers where they are few."""
    published = entry.published
    shown = [
        f"{name}: " + ", ".join(
            f"{column} {value:g}"
            for column, value in zip(published.columns, row, strict=True)
            if value is not None
        )
        for name, row in published.rows.items()
    ]  # fmt: skip
    return f"{published.source}. {'; '.join(shown)}".rstrip(". ") + "."
