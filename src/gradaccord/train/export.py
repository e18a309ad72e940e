"""`gradaccord export`: a run's model as a Hugging Face folder, with a model card and its results."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.models.saving import saved_tasks
from gradaccord.runs.about import About, read_about
from gradaccord.runs.config_files import parse_yaml
from gradaccord.runs.escape import fenced, markdown
from gradaccord.runs.files import (
    CONFIG,
    MODEL,
    RESULTS,
    RunFolderError,
    read_object,
    system_reason,
)
from gradaccord.runs.results import Results
from gradaccord.tasks.registry import build
from gradaccord.train.config_file import read_own_config

SETTINGS = "gradaccord-config.yaml"


def export(run: Path, out: Path, watch: Watch = NOBODY) -> Path:
    """Copy the best model of a finished run, and write README.md and results beside it."""
    if not Results.exists(run):
        state = "has not finished" if (run / CONFIG).exists() else "is not a run"
        raise ValueError(f"{run} {state}: give the folder of a finished `gradaccord train`.")
    if not (run / MODEL).is_dir():
        raise ValueError(f"{run} holds no model: a single-task run keeps one in each task's folder.")
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty: choose another --out.")
    results, about, config = Results.read(run), read_about(run), _settings(run)
    part = out.with_name(f".{out.name}.part")  # takes the folder's place when it is whole
    shutil.rmtree(part, ignore_errors=True)
    try:
        _write(run, part, results, about, config, watch)
        if out.exists():
            out.rmdir()
        part.rename(out)
    except OSError as error:  # of shutil: a list of files and reasons
        why = system_reason(error) or "no room, or no right to write"
        raise RunFolderError(
            f"{out} cannot be written ({why}): make room or choose another --out, and export again."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return out


def _settings(run: Path) -> str:
    """The run's configuration as it is given away."""
    read_own_config(run / CONFIG)  # refuses one that is damaged
    return without_folders((run / CONFIG).read_text(encoding="utf-8"), run / CONFIG)


def _write(run: Path, part: Path, results: Results, about: About, config: str, watch: Watch) -> None:
    total = sum(path.stat().st_size for path in (run / MODEL).rglob("*") if path.is_file())
    done = 0

    def copy(source: str, target: str) -> None:
        nonlocal done
        watch.at("copying the model", done, total)
        shutil.copy2(source, target)
        done += Path(target).stat().st_size

    shutil.copytree(run / MODEL, part, copy_function=copy)
    watch.at("writing the model card", 0, 0)
    shutil.copy(run / RESULTS, part / RESULTS)
    (part / SETTINGS).write_text(config, encoding="utf-8")
    text = card(results, about, config, use(part, results.trained))
    (part / "README.md").write_text(text, encoding="utf-8")


def without_folders(config: str, path: Path) -> str:
    """A configuration to publish: of absolute paths only the last name. path: for messages."""
    import yaml

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: short(own) for key, own in value.items()}
        if isinstance(value, list):
            return [short(own) for own in value]
        for kind in (PurePosixPath, PureWindowsPath):
            if isinstance(value, str) and kind(value).is_absolute():
                return kind(value).name
        return value

    content, _ = parse_yaml(config, path)
    return str(yaml.safe_dump(short(content), sort_keys=False, allow_unicode=True))


def use(folder: Path, tasks: Sequence[str]) -> str:
    """How to use the model: code to run in its folder, and commands."""
    entries, trunk = saved_tasks(folder), read_object(folder / "config.json")
    built = {task: build(entries[task].kind, **entries[task].options) for task in tasks}
    samples = {task: of.sample_code(trunk) for task, of in built.items()}
    questions = {task: code for task, (code, _) in samples.items()}
    imports = [line for _, needed in samples.values() for line in needed]
    lines = "\n".join(f"    {task!r}: {asked}," for task, asked in questions.items())
    code = f"""from pathlib import Path
{chr(10).join([*dict.fromkeys(imports), "from gradaccord.train.predict import Predictor"])}

questions = {{
{lines}
}}
for task, question in questions.items():
    predictor = Predictor(Path("."), task)  # this folder
    print(task, predictor([predictor.example(question)]))
"""
    text = fenced(code, "python") + "\n"
    if not imports:
        commands = "\n".join(
            f"gradaccord predict FOLDER --task {shlex.quote(task)} {shlex.quote(_written(asked))}"
            for task, asked in questions.items()
        )
        text += f"""
or

{fenced(commands, "shell")}

Fields may also have the column names of the training files; `--file` takes lines or a table.
"""
    if not str(trunk["model_type"]).startswith("gradaccord"):
        text += "\nThe encoder alone: `transformers.AutoModel.from_pretrained(FOLDER)`.\n"
    return text


def _written(question: str) -> str:
    """The same on a command line."""
    asked = ast.literal_eval(question)
    return asked if isinstance(asked, str) else json.dumps(asked)


def card(results: Results, about: About, config: str, use: str) -> str:
    """The model card: what it is, what it scored, how it was made, how it is used."""
    rows = []
    for split in ("dev", "test"):
        for task, scores in results.scores_shown(split).items():
            known = results.reference(task, split)
            for metric, value in scores.items():
                beside = ["–", "–", ""]
                if known is not None and metric == results.metrics[task]:
                    beside = [f"{known.chance:.2f}", f"{known.majority:.2f}", known.mark]
                cells = [task, results.kinds.get(task, "–"), split, metric, f"{value:.2f}", *beside]
                rows.append(f"| {' | '.join(map(markdown, cells))} |")
    options = ", ".join(f"{key} = {value}" for key, value in results.method_options.items())
    method = markdown(results.method_name + (f" ({options})" if options else ""))
    versions = ", ".join(f"{name} {number}" for name, number in about.versions.items())
    overlaps = (
        "".join(f"\n* {markdown(sentence)}" for sentence in results.overlaps) or "\n* none was found"
    )
    table = "\n".join(rows)
    return f"""---
library_name: gradaccord
tags: [multi-task, gradient-alignment]
---

# A model for {markdown(", ".join(results.trained))}

Trained by gradaccord with the method {method}, seed {results.seed},
{results.cost.steps:,} steps, {results.cost.gradients:,.0f} batch gradients.

## Scores

| task | kind | split | metric | percent | chance | majority | note |
|---|---|---|---|---|---|---|---|
{table}

Chance is a random guess, majority always the same prediction, both on the main metric of a task.
The checkpoint was chosen on dev. Overlap between training and evaluation data:
{overlaps}

## Use

{use}
## How it was made

`gradaccord train {SETTINGS}` ({markdown(versions) or "versions unknown"}). Files are named without
their folders:

{fenced(config, "yaml")}
"""
