"""The page of a run or a comparison: what stands in its sections."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradaccord.compare.summary import AVERAGE
from gradaccord.report import figures, tables
from gradaccord.report.extras import read_extras
from gradaccord.report.html import Section, fill
from gradaccord.report.read_runs import Material, RunRead, read_material
from gradaccord.report.sweep_page import is_sweep, render_sweep
from gradaccord.report.tables import Cell, Table
from gradaccord.runs.files import ABOUT, read_json


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Read what lies below a folder and write the page; default: report.html in the folder."""
    target = out if out is not None else folder / "report.html"
    if target.is_dir():
        raise ValueError(
            f"`out` is the folder {target}: name a file, such as {target / 'report.html'}."
        )
    text = render_sweep(folder) if is_sweep(folder) else render(read_material(folder))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, target)  # whole or absent
    return target


def render(material: Material) -> str:
    """The page as text. The same runs give the same page, byte for byte."""
    return fill(
        f"{material.folder.resolve().name}: {_kind(material)}",
        _about(material),
        _findings(material),
        list(_sections(material)),
    )


def _sections(material: Material) -> Iterator[Section]:
    first, leader = next(iter(material.methods)), _leader(material)
    shown = list(dict.fromkeys([leader, first]))
    for extra in read_extras(material.folder).sections:
        yield Section(extra.title, extra.sentences, extra.tables, extra.figures)
    yield Section(
        "Results",
        tables=_known(
            tables.leaderboard(material),
            tables.scores(material),
            tables.per_task(material),
            tables.differences(material),
        ),
    )
    yield Section("Missing or collapsed runs", sentences=_trouble(material))
    yield Section("Learning", figures=figures.learning(material))
    yield Section("Alignment of gradients", figures=figures.alignment(material))
    yield Section(
        "Forgetting and distance",
        tables=_known(tables.forgetting(material)),
        figures=figures.memory(material),
    )
    yield Section("Cost", figures=figures.costs(material), tables=[tables.costs(material)])
    yield Section(
        "Errors",
        figures=[f for name in shown for f in figures.mistakes(name, material.methods[name])],
        tables=tables.worst([(name, run) for name in shown for run in material.methods[name]]),
    )
    yield Section("Data", sentences=_data(material))
    yield Section("How to run this again", tables=_again(material), texts=_configurations(material))


def _kind(material: Material) -> str:
    if material.comparison is None:
        return f"a run of {_method(material.runs[0])}"
    count = len(material.methods)
    return f"{count} method{'s' if count > 1 else ''} compared"


def _about(material: Material) -> str:
    """When, on what."""
    finished = max(str(run.results["finished"]) for run in material.runs).replace("T", " ")
    tasks = ", ".join(material.runs[0].trained)
    count = len(material.runs)
    if count == 1:
        return f"One run on {tasks}, finished {finished}."
    return f"{count} runs on {tasks}, the last one finished {finished}."


def _findings(material: Material) -> list[str]:
    """What the numbers say."""
    if material.comparison is not None:
        collapsed = [e["method"] for e in material.comparison["methods"] if e["collapsed"]]
        missing = sum(len(e["missing"]) for e in material.comparison["methods"])
        found = [str(sentence) for sentence in material.comparison["findings"]]
        found = read_extras(material.folder).findings or found
        if collapsed:
            found.append(
                f"Did not learn on some seed, so that its cosines mean nothing: {', '.join(collapsed)}."
            )
        if missing:
            found.append(f"{missing} run{'s are' if missing > 1 else ' is'} missing from the means.")
        return found
    run = material.runs[0]
    metrics = run.results["metrics"]
    scores = ", ".join(
        f"{task} {value:.2f} % ({metrics[task]})" for task, value in run.main(material.split).items()
    )
    cost = run.results["cost"]
    said = [
        f"On {material.split}, {_method(run)} reaches {scores}.",
        f"That took {cost['seconds']:.0f} s, {cost['steps']:,} steps and {cost['gradients']:,.0f} "
        f"batch gradients; the best weights are those of step {run.results['best_step']}.",
        "One run says nothing about chance: gradaccord compare repeats it over seeds.",
    ]
    return said if scores else said[1:]


def _method(run: RunRead) -> str:
    options = {k: v for k, v in run.results["method"].items() if k != "name"}
    shown = ",".join(f"{key}={value}" for key, value in options.items())
    name = f"{run.results['method']['name']}:{shown}" if shown else str(run.results["method"]["name"])
    return "+".join([name, *map(str, run.results["regularize"])])


def _leader(material: Material) -> str:
    """The method with the best average."""
    if material.comparison is None:
        return next(iter(material.methods))
    averages = {
        e["method"]: e["scores"][AVERAGE]["mean"]
        for e in material.comparison["methods"]
        if e["method"] in material.methods
    }
    return str(max(averages, key=lambda name: -1e9 if averages[name] is None else averages[name]))


def _trouble(material: Material) -> list[str]:
    found = list(material.unfinished)
    for entry in (material.comparison or {"methods": []})["methods"]:
        if entry["collapsed"]:
            some = "seeds" if len(entry["collapsed"]) > 1 else "seed"
            seeds = f"{some} {', '.join(map(str, entry['collapsed']))}"
            found.append(
                f"{entry['method']} learned less than half of what the baseline did on {seeds}."
            )
    return found


def _data(material: Material) -> list[str]:
    """What is odd about the data, each fact once."""
    found = []
    for run in material.runs:
        found += [str(overlap) for overlap in run.results.get("overlaps", ())]
        for task, splits in run.results.get("notes", {}).items():
            for split, notes in splits.items():
                shown = ", ".join(f"{what}: {count:,}" for what, count in notes.items())
                found.append(f"{task}, {split}: {shown}.")
    return list(dict.fromkeys(found))


def _again(material: Material) -> list[Table]:
    """Commands, and what they ran with."""
    commands = []
    versions: dict[str, dict[str, None]] = {}
    path = material.folder / ABOUT
    if material.comparison is not None and path.exists():
        whole = read_json(path)
        started = tables.named(str(whole["started"]).replace("T", " "))
        commands.append([tables.named("all"), Cell("–"), Cell(shlex.join(whole["command"])), started])
    for name, runs in material.methods.items():
        for run in runs:
            about = run.about
            if about.get("command"):
                commands.append(
                    [
                        tables.named(name),
                        Cell(str(run.seed), float(run.seed)),
                        Cell(shlex.join(map(str, about["command"]))),
                        tables.named(str(about.get("started", "")).replace("T", " ")),
                    ]
                )
            for what, value in _environment(about):
                versions.setdefault(what, dict.fromkeys([value]))[value] = None
    found = []
    if commands:
        found.append(Table("commands", "Commands", ["method", "seed", "command", "started"], commands))
    if versions:
        rows = [[tables.named(what), Cell(", ".join(known))] for what, known in versions.items()]
        found.append(
            Table(
                "versions", "Versions and machine", ["what", "version"], rows,
                "Several where runs differ. A + after the git hash: files differed from it.",
            )
        )  # fmt: skip
    return found


def _environment(about: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((package, str(version)) for package, version in about.get("versions", {}).items())
    for key in ("python", "system", "processor", "cores", "git"):
        if about.get(key) is not None:
            yield key, str(about[key])


def _configurations(material: Material) -> dict[str, str]:
    """Of each method's first run."""
    return {
        f"Configuration of {name}, seed {runs[0].seed}": runs[0].config
        for name, runs in material.methods.items()
        if runs[0].config
    }


def _known(*found: Table | None) -> list[Table]:
    return [table for table in found if table is not None]
