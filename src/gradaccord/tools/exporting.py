"""`gradaccord export`: a run's model as a Hugging Face folder, with a model card and its results."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gradaccord.train.run_folder import ABOUT, CONFIG, MODEL, RESULTS, read_json


def export(run: Path, out: Path) -> Path:
    """Copy the best model of a finished run, and write README.md and results beside it."""
    if not (run / RESULTS).exists():
        state = "has not finished" if (run / CONFIG).exists() else "is no run"
        raise ValueError(f"{run} {state}: give the folder of a finished `gradaccord train`.")
    if not (run / MODEL).is_dir():
        raise ValueError(f"{run} holds no model: a single-task run keeps one in each task's folder.")
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty: choose another --out.")
    shutil.copytree(run / MODEL, out, dirs_exist_ok=True)
    for name in (RESULTS, CONFIG):
        shutil.copy(run / name, out / name.replace("config", "gradaccord-config"))
    results = read_json(run / RESULTS)
    told = read_json(run / ABOUT) if (run / ABOUT).exists() else {}
    (out / "README.md").write_text(card(results, told, (run / CONFIG).read_text()), encoding="utf-8")
    return out


def card(results: dict[str, Any], told: dict[str, Any], config: str) -> str:
    """The model card: what it is, what it scored, how it was made, how it is used."""
    rows = [
        f"| {task} | {results['kinds'][task]} | {split} | {metric} | {value:.2f} |"
        for split in ("dev", "test")
        for task, scores in results[split].items()
        for metric, value in scores.items()
    ]
    method = results["method"]["name"]
    options = {k: v for k, v in results["method"].items() if k != "name"}
    versions = ", ".join(f"{name} {number}" for name, number in told.get("versions", {}).items())
    overlaps = "".join(f"\n* {sentence}" for sentence in results["overlaps"]) or "\n* none was found"
    first = results["trained"][0]
    scores = "\n".join(rows)
    cost = results["cost"]
    return f"""---
library_name: gradaccord
tags: [multi-task, gradient-alignment]
---

# A model for {", ".join(results["trained"])}

Trained by gradaccord with the method `{method}`{f" {options}" if options else ""}, seed
{results["seed"]}, {cost["steps"]:,} steps, {cost["gradients"]:,.0f} batch gradients.

## Scores

| task | kind | split | metric | percent |
|---|---|---|---|---|
{scores}

The checkpoint was chosen on dev. Overlap between training and evaluation data:
{overlaps}

## Use

```python
from pathlib import Path
from gradaccord.tools.predicting import Predictor

predictor = Predictor(Path("this folder"), task="{first}")
print(predictor([predictor.example("some text")]))
```

or `gradaccord predict FOLDER --task {first} "some text"`. The encoder alone:
`transformers.AutoModel.from_pretrained(FOLDER)`.

## How it was made

`{" ".join(told.get("command", ["gradaccord", "train"]))}` ({versions or "versions unknown"})

```yaml
{config.strip()}
```
"""
