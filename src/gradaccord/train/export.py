"""`gradaccord export`: a run's model as a Hugging Face folder, with a model card and its results."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradaccord.models.saving import saved_tasks
from gradaccord.runs.files import (
    ABOUT,
    CONFIG,
    MODEL,
    RESULTS,
    RunFolderError,
    read_json,
    system_reason,
)
from gradaccord.runs.results import Results
from gradaccord.tasks.registry import build


def export(run: Path, out: Path) -> Path:
    """Copy the best model of a finished run, and write README.md and results beside it."""
    if not Results.exists(run):
        state = "has not finished" if (run / CONFIG).exists() else "is no run"
        raise ValueError(f"{run} {state}: give the folder of a finished `gradaccord train`.")
    if not (run / MODEL).is_dir():
        raise ValueError(f"{run} holds no model: a single-task run keeps one in each task's folder.")
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty: choose another --out.")
    results = Results.read(run)
    part = out.with_name(f".{out.name}.part")  # takes the folder's place when it is whole
    shutil.rmtree(part, ignore_errors=True)
    try:
        _write(run, part, results)
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


def _write(run: Path, part: Path, results: Results) -> None:
    shutil.copytree(run / MODEL, part)
    for name in (RESULTS, CONFIG):
        shutil.copy(run / name, part / name.replace("config", "gradaccord-config"))
    about = read_json(run / ABOUT) if (run / ABOUT).exists() else {}
    (part / "README.md").write_text(
        card(results, about, (run / CONFIG).read_text(encoding="utf-8"), use(part, results.trained)),
        encoding="utf-8",
    )


def use(folder: Path, tasks: Sequence[str]) -> str:
    """How to use the model: code that runs in its folder, and commands."""
    entries, trunk = saved_tasks(folder), read_json(folder / "config.json")
    built = {task: build(entries[task].kind, **entries[task].options) for task in tasks}
    samples = {task: of.sample_code(trunk) for task, of in built.items()}
    questions = {task: code for task, (code, _) in samples.items()}
    imports = [line for _, needed in samples.values() for line in needed]
    lines = "\n".join(f"    {task!r}: {asked}," for task, asked in questions.items())
    text = f"""```python
from pathlib import Path
{chr(10).join([*dict.fromkeys(imports), "from gradaccord.train.predict import Predictor"])}

questions = {{
{lines}
}}
for task, question in questions.items():
    predictor = Predictor(Path("."), task)  # this folder
    print(task, predictor([predictor.example(question)]))
```
"""
    if not imports:
        commands = "\n".join(
            f"    gradaccord predict FOLDER --task {shlex.quote(task)} {shlex.quote(_written(asked))}"
            for task, asked in questions.items()
        )
        text += f"""
or

{commands}

Fields may also be called as the columns of the training files were; `--file` takes lines or a table.
"""
    if not str(trunk["model_type"]).startswith("gradaccord"):
        text += "\nThe encoder alone: `transformers.AutoModel.from_pretrained(FOLDER)`.\n"
    return text


def _written(question: str) -> str:
    """The same on a command line."""
    asked = ast.literal_eval(question)
    return asked if isinstance(asked, str) else json.dumps(asked)


def card(results: Results, about: dict[str, Any], config: str, use: str) -> str:
    """The model card: what it is, what it scored, how it was made, how it is used."""
    rows = [
        f"| {task} | {results.kinds[task]} | {split} | {metric} | {value:.2f} |"
        for split in ("dev", "test")
        for task, scores in results.scores(split).items()
        for metric, value in scores.items()
    ]
    options = results.method_options
    versions = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    overlaps = "".join(f"\n* {sentence}" for sentence in results.overlaps) or "\n* none was found"
    scores = "\n".join(rows)
    return f"""---
library_name: gradaccord
tags: [multi-task, gradient-alignment]
---

# A model for {", ".join(results.trained)}

Trained by gradaccord with the method `{results.method_name}`{f" {options}" if options else ""}, seed
{results.seed}, {results.cost.steps:,} steps, {results.cost.gradients:,.0f} batch gradients.

## Scores

| task | kind | split | metric | percent |
|---|---|---|---|---|
{scores}

The checkpoint was chosen on dev. Overlap between training and evaluation data:
{overlaps}

## Use

{use}
## How it was made

`{" ".join(about.get("command", ["gradaccord", "train"]))}` ({versions or "versions unknown"})

```yaml
{config.strip()}
```
"""
