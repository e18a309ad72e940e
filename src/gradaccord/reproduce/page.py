"""The pages `docs/results.md` and `docs/claims.md` with their figures, from entries and records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from gradaccord.compare.statistics import short_p
from gradaccord.reproduce.differences import current_records
from gradaccord.reproduce.drawn import Drawn
from gradaccord.reproduce.encoders import encoders_section
from gradaccord.reproduce.entry import PAPERS, Entry, Size
from gradaccord.reproduce.figures import drawings
from gradaccord.reproduce.records import RunRecord
from gradaccord.reproduce.table import interval, tables
from gradaccord.reproduce.verdict import Status, command, status_of
from gradaccord.runs.escape import table_head, table_row
from gradaccord.runs.files import write_atomic

RESULTS, CLAIMS = "results.md", "claims.md"
MADE = "Made by `gradaccord reproduce --write-docs` from the records in `results/`. Do not edit it."


def write_docs(entries: Mapping[str, Entry], results: Path, docs: Path) -> list[Path]:
    """Write both pages and their figures; returns the files that were written."""
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


def _results(entries: Mapping[str, Entry], found: Mapping[str, Status], results: Path) -> Iterator[str]:
    run = [name for name, status in found.items() if status.done]
    yield from ("# Results", "", MADE, "")
    yield (
        "Every number here was measured on two cores, in the small setting of its entry. Each entry "
        "lists what it uses in place of the published models and data. The plan, with the primary "
        "tests, was written before the runs: [results/PLAN.md](../results/PLAN.md). "
        "[claims.md](claims.md) sets the papers' claims beside what we found."
    )
    yield ""
    yield f"{len(run)} of {len(entries)} entries have runs; the others are listed at the end."
    yield from ("", "## Primary tests", "")
    yield from _primary(entries, found)
    figures = drawings(entries, results)
    yield from _shown(figures, "")
    for paper, names in groupby(run, key=lambda name: entries[name].paper):
        yield from (f"## {PAPERS[paper]}", "")
        for name in names:
            yield from _entry(entries[name], found[name], results)
            yield from _shown(figures, name)
    yield from encoders_section(results)
    yield from ("## Without runs", "", *table_head("entry", "what", "status", "command"))
    for name, entry in entries.items():
        if name not in run:
            status = found[name]
            reason = f"{status.text}: {entry.recipe_only}" if entry.recipe_only else status.text
            yield table_row((name, entry.title, reason, f"`{command(entry)}`"))


def _shown(figures: Sequence[Drawn], entry: str) -> Iterator[str]:
    for drawn in figures:
        if drawn.entry == entry:
            yield from (drawn.markdown, "")


def _primary(entries: Mapping[str, Entry], found: Mapping[str, Status]) -> Iterator[str]:
    yield (
        "One test for each entry, chosen before the runs. Differences are paired by seed, with 95 % "
        "intervals over seeds (all runs are scored on the same examples, whose sampling is not in the "
        "intervals). p is corrected by Holm's method over all tests of the entry. *detectable* is the "
        "smallest true difference that the test finds four times in five; *worth having* is the "
        "smallest that matters to us."
    )
    yield ""
    headings = ("entry", "test", "difference", "p", "detectable", "worth having", "verdict")
    yield from table_head(*headings)
    for name, entry in entries.items():
        chosen, status = entry.small.primary if entry.small else None, found[name]
        if chosen is None:
            continue
        test = f"{chosen.arm} against {chosen.against}, {chosen.metric}"
        test += ", lower is better" if chosen.better == "lower" else ""
        cells = ["–", "–", "–"]
        if status.primary is not None:
            own = status.primary.difference
            least = status.primary.detectable
            cells = [
                interval(status.primary),
                own.no_p or short_p(own.p_holm),
                f"{least:.2f}" if math.isfinite(least) else "–",
            ]
        link = f"[{name}](#{name})" if status.done else name
        row = [link, test, *cells, f"{chosen.smallest_effect:g}", status.verdict]
        yield table_row(row)
    yield ""


def _entry(entry: Entry, status: Status, results: Path) -> Iterator[str]:
    size: Size = "full" if current_records(entry, results, "full") else "small"
    design, records = entry.design(size), current_records(entry, results, size)
    yield from (f"### {entry.name}", "", f"**{entry.title}.** {entry.claim}", "")
    yield f"Status: {status.text}. {status.result}"
    yield ""
    yield f"`{command(entry)}` ({_origin(records)})"
    yield ""
    if entry.published.rows or entry.published.note:
        note = f" {entry.published.note}" if entry.published.note else ""
        rest = "" if entry.published.complete else " Other published numbers are not available here."
        yield from (f"Published: {entry.published.source}.{note}{rest}", "")
    if any("'limit':" in str(record.settings) and not record.drawn for record in records):
        yield from (
            "Measured when `limit` took the first examples of each split; now it draws them.",
            "",
        )
    for label, lines in (
        ("In place of the published setting", design.substitutions),
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
        "What the papers claim, and what we found at the scale of two cores. The verdicts:\n\n"
        "* **holds**: the primary test of the entry finds it, and the gain is worth having.\n"
        "* **holds in part**: the gain is smaller, or another control does better.\n"
        "* **does not hold here**: the interval excludes an effect worth having.\n"
        "* **not testable here**: the interval still includes such an effect, plain training learns "
        "nothing at this scale, the method does not win but has learned its training data clearly "
        "less, or data is missing.\n\n"
        "Without a primary test the verdict is exploratory. An entry is run by `gradaccord reproduce "
        "ENTRY --small --data DIR`; those that were run have details in [results.md](results.md)."
    )
    for paper, own in groupby(entries.values(), key=lambda entry: entry.paper):
        yield from ("", f"## {PAPERS[paper]}", "")
        yield from table_head("claim", "their evidence", "entry", "result", "verdict")
        for entry in own:
            status = found[entry.name]
            name = f"[{entry.name}](results.md#{entry.name})" if status.done else entry.name
            row = [entry.claim, _evidence(entry), name, status.result, status.verdict]
            yield table_row(cell.replace("|", "\\|") for cell in row)


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
