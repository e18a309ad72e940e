"""The page of a run or a comparison: what its sections show."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean

from gradaccord.compare.specs import Spec
from gradaccord.report import run_figures, run_tables
from gradaccord.report.answer import forest_plot
from gradaccord.report.data import ReportData, read_report_data
from gradaccord.report.data_tables import data_tables
from gradaccord.report.extras_file import read_extras
from gradaccord.report.forgetting import forgetting_figures, forgetting_table
from gradaccord.report.html_file import fill
from gradaccord.report.method_names import methods_table
from gradaccord.report.section import Cell, Section, Table, drawn, named
from gradaccord.report.sweep_page import is_sweep, render_sweep
from gradaccord.runs.about import About, read_about
from gradaccord.runs.files import write_atomic
from gradaccord.runs.results import Cost, Results

MOST_SCORES = 4  # that one sentence names one by one


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Read what lies below a folder and write the page; default: report.html in the folder."""
    target = out if out is not None else folder / "report.html"
    if target.is_dir():
        raise ValueError(
            f"`out` is the folder {target}: give a file, such as {target / 'report.html'}."
        )
    text = render_sweep(folder) if is_sweep(folder) else render(read_report_data(folder))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, text)
    return target


def render(data: ReportData) -> str:
    """The page as text. The same runs give the same page, byte for byte."""
    return fill(
        f"{data.folder.resolve().name}: {_kind(data)}",
        _about(data),
        _findings(data),
        list(_sections(data)),
        forest_plot(data),
        [*_warnings(data), *read_extras(data.folder).findings],
    )


def _sections(data: ReportData) -> Iterator[Section]:
    first, leader = next(iter(data.methods)), _leader(data)
    shown = {data.names[name]: data.methods[name] for name in (leader, first)}
    legend = run_figures.shared_legend(data)
    yield Section(
        "Results",
        tables=_known(
            run_tables.leaderboard(data),
            methods_table(data.comparison, data.names) if data.comparison is not None else None,
            run_tables.scores(data),
            run_tables.per_task(data),
            run_tables.differences(data),
        ),
    )
    yield Section(
        "Runs to be wary of", sentences=_trouble(data), tables=_known(run_tables.no_skill(data))
    )
    for extra in read_extras(data.folder).sections:
        yield extra.section(data.folder)
    yield Section(
        "Learning",
        figures=run_figures.learning(data),
        tables=_known(run_tables.course(data)),
        legend=legend,
    )
    yield Section("Alignment of gradients", figures=run_figures.alignment(data), legend=legend)
    yield Section(
        "Forgetting and distance",
        tables=_known(forgetting_table(data)),
        figures=drawn([*forgetting_figures(data), run_figures.distance(data)]),
        legend=legend,
    )
    yield Section("Cost", figures=run_figures.cost(data), tables=[run_tables.costs(data)])
    yield Section(
        "Errors",
        figures=[f for name, runs in shown.items() for f in run_figures.mistakes(name, runs)],
        tables=run_tables.worst([(name, run) for name, runs in shown.items() for run in runs]),
    )
    yield Section("Data", sentences=_data(data), tables=data_tables(data.runs[0].results.cards))
    yield Section("How to run this again", tables=_again(data), texts=_configurations(data))


def _kind(data: ReportData) -> str:
    if data.comparison is None:
        return f"a run of {_method(data.runs[0].results)}"
    count = len(data.methods)
    return f"{count} method{'s' if count > 1 else ''} compared"


def _about(data: ReportData) -> str:
    """On which tasks, and when."""
    finished = max(run.results.finished for run in data.runs).replace("T", " ")
    tasks = ", ".join(data.runs[0].results.trained)
    count = len(data.runs)
    if count == 1:
        return f"One run on {tasks}, finished {finished}."
    return f"{count} runs on {tasks}, the last one finished {finished}."


def _findings(data: ReportData) -> list[str]:
    """What the numbers say."""
    if data.comparison is not None:
        return list(data.comparison.findings)
    results = data.runs[0].results
    scores, cost = results.main_scores(data.split), results.cost
    no_skill = [
        task for task in scores if (own := results.reference(task, data.split)) is not None and own.mark
    ]
    weights = ", ".join(f"{task} {weight:g}" for task, weight in results.weights.items())
    found = [
        f"On {data.split}, {_method(results)} reaches {_reached(results, scores)}.",
        f"That took {_time(cost)}, {cost.steps:,} steps and {cost.gradients:,.0f} batch gradients; "
        f"the best weights are those of step {results.best_step}.",
        *([f"Static task weights: {weights}; the others 1."] if weights else []),
        "One run says nothing about chance: gradaccord compare repeats it over seeds.",
    ]
    if no_skill:
        found.insert(1, f"No better than a constant prediction on {', '.join(no_skill)}.")
    return found if scores else found[1:]


def _reached(results: Results, scores: Mapping[str, float]) -> str:
    """Every score; of many, the average, the lowest and the highest."""
    if len(scores) <= MOST_SCORES:
        return ", ".join(
            f"{value:.2f} % on {task} ({results.metrics[task]})" for task, value in scores.items()
        )
    trained = {task: value for task, value in scores.items() if task in results.trained}
    low, high = (end(trained, key=trained.__getitem__) for end in (min, max))
    found = (
        f"{fmean(trained.values()):.2f} % on average over {len(trained)} tasks, from "
        f"{trained[low]:.2f} % on {low} to {trained[high]:.2f} % on {high}"
    )
    others = [value for task, value in scores.items() if task not in trained]
    more = f"; {fmean(others):.2f} % over {len(others)} never trained on" if others else ""
    return found + more


def _warnings(data: ReportData) -> list[str]:
    """Warnings for readers of the findings."""
    if data.comparison is None:
        return []
    found = []
    collapsed = [data.names[own.method] for own in data.comparison.methods if own.collapsed]
    missing = sum(len(own.missing) for own in data.comparison.methods)
    if collapsed:
        found.append(
            f"Did not learn on some seed, so that its cosines mean nothing: {', '.join(collapsed)}."
        )
    marked = {task: None for own in data.comparison.methods for task in own.marks}
    if marked:
        found.append(
            "Some methods are no better than a constant prediction (* below) on "
            f"{', '.join(marked)}: differences there may mean nothing."
        )
    if missing:
        found.append(f"{missing} run{'s are' if missing > 1 else ' is'} missing from the means.")
    return found


def _method(results: Results) -> str:
    spec = Spec(results.method_name, tuple(results.method_options.items()), tuple(results.regularize))
    return str(spec)


def _time(cost: Cost) -> str:
    """Processor time; wall time for a resumed run, whose processor time is unknown."""
    if cost.cpu_seconds is None:
        return f"{cost.seconds:.0f} s"
    return f"{cost.cpu_seconds:.0f} s of processor time"


def _leader(data: ReportData) -> str:
    """The method with the best average."""
    if data.comparison is None:
        return next(iter(data.methods))
    known = [own for own in data.comparison.methods if own.method in data.methods]
    return max(known, key=lambda own: own.average.mean if own.average.count else -1e9).method


def _trouble(data: ReportData) -> list[str]:
    found = list(data.unfinished)
    for own in data.comparison.methods if data.comparison is not None else ():
        if own.collapsed:
            some = "seeds" if len(own.collapsed) > 1 else "seed"
            seeds = f"{some} {', '.join(map(str, own.collapsed))}"
            found.append(f"{own.method} learned less than half of what the baseline did on {seeds}.")
    return found


def _data(data: ReportData) -> list[str]:
    """What is unusual about the data, each fact once."""
    found = []
    for run in data.runs:
        found += run.results.overlaps
        found += [w for card in run.results.cards.values() for w in card.warnings]
        for task, splits in run.results.notes.items():
            for split, notes in splits.items():
                shown = ", ".join(f"{what}: {count:,}" for what, count in notes.items())
                found.append(f"{task}, {split}: {shown}.")
    return list(dict.fromkeys(found))


def _again(data: ReportData) -> list[Table]:
    """Commands, and what they ran with."""
    commands = []
    versions: dict[str, dict[str, None]] = {}
    whole = read_about(data.folder)
    if data.comparison is not None and whole.command:
        started = named(whole.started.replace("T", " "))
        commands.append([named("all"), Cell("–"), Cell(shlex.join(whole.command)), started])
    for name, runs in data.methods.items():
        for run in runs:
            about = run.about
            if about.command:
                commands.append(
                    [
                        named(name),
                        Cell(str(run.results.seed), float(run.results.seed)),
                        Cell(shlex.join(about.command)),
                        named(about.started.replace("T", " ")),
                    ]
                )
            for what, value in _environment(about):
                versions.setdefault(what, dict.fromkeys([value]))[value] = None
    found = []
    if commands:
        found.append(Table("commands", "Commands", ["method", "seed", "command", "started"], commands))
    if versions:
        rows = [[named(what), Cell(", ".join(known))] for what, known in versions.items()]
        found.append(
            Table(
                "versions", "Versions and machine", ["what", "version"], rows,
                "Several where runs differ. After the git hash, + means that files differed from it, "
                "? that they were not compared: the folder's git settings may name programs.",
            )
        )  # fmt: skip
    return found


def _environment(about: About) -> Iterator[tuple[str, str]]:
    yield from about.versions.items()
    for key in ("python", "system", "processor", "cores", "git"):
        if getattr(about, key) is not None:
            yield key, str(getattr(about, key))


def _configurations(data: ReportData) -> dict[str, str]:
    """The configuration of each method's first run."""
    return {
        f"Configuration of {name}, seed {runs[0].results.seed}": runs[0].config
        for name, runs in data.methods.items()
        if runs[0].config
    }


def _known(*found: Table | None) -> list[Table]:
    return [table for table in found if table is not None]
