"""Run folders to be damaged: of one run, of a comparison, of a few-shot run; read as commands do."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from fuzz_mutations import damaged, damaged_json, damaged_lines
from fuzz_seeds import Seed, lines
from hypothesis import strategies as st
from made_results import made_results

from gradaccord.compare.processes import Run
from gradaccord.compare.specs import Spec
from gradaccord.compare.summary import summarise
from gradaccord.data.files.text_files import File
from gradaccord.train.config_file import check_config

ABOUT = {"command": ["gradaccord", "train", "a.yaml"], "python": "3.11", "versions": {"torch": "2"},
         "git": "abc", "started": "2026-01-01T00:00:00"}  # fmt: skip
CONFIG = b"tasks:\n  a: {data: sst}\nmethod: sum\n"
STEP = {"event": "step", "step": 1, "phase": "main", "share": 0.5, "gradients": 2.0, "seconds": 0.1,
        "lr": 0.1, "loss": {"a": 1.0}, "cosine": 0.5, "conflicts": 0.0}  # fmt: skip
EXTRAS = {"version": 1, "findings": ["found"], "sections": [{"title": "more", "sentences": ["so"]}]}


@st.composite
def damaged_file(draw: st.DrawFn, content: bytes) -> bytes:
    """JSON, JSON lines or bytes, by what the content is."""
    if content[:1] != b"{":
        return draw(damaged(content))
    return draw(damaged_lines(content) if content[:8] == b'{"event"' else damaged_json(content))


def report(folder: Path) -> Any:
    """The page of a folder."""
    from gradaccord.report.page import write_report

    with warnings.catch_warnings():  # lines of a log that cannot be read are left out with a note
        warnings.filterwarnings("ignore", message=".*unreadable lines are left out")
        return write_report(folder / "run", folder / "page.html")


def run_files(seed: int = 0, **options: Any) -> dict[str, bytes]:
    """What a finished run leaves, without its weights."""
    results = made_results({"a": 50.0, "b": 60.0}, seed=seed, **options)
    return {
        "results.json": json.dumps(results.to_json()).encode(),
        "log.jsonl": lines(STEP, {**STEP, "step": 2}, {"event": "evaluation", "step": 2}),
        "about.json": json.dumps(ABOUT).encode(),
        "config.yaml": CONFIG,
    }


def comparison_folder() -> dict[str, bytes]:
    config = check_config({"tasks": {"a": "sst"}})
    runs = [
        Run(Spec(method), seed, Path(method, f"seed-{seed}"), config,
            made_results({"a": 50.0 + seed, "b": 60.0}, seed=seed))
        for method in ("sum", "pcgrad")
        for seed in (0, 1)
    ]  # fmt: skip
    files = {
        f"{run.folder.as_posix()}/{name}": content
        for run in runs
        for name, content in run_files(run.seed).items()
    }
    own = {
        "comparison.json": json.dumps(summarise(runs).to_json()).encode(),
        "about.json": json.dumps(ABOUT).encode(),
        "extras.json": json.dumps(EXTRAS).encode(),
    }
    return {**files, **own}


def settings(folder: Path) -> Any:
    """The settings of a few-shot run that is resumed."""
    from gradaccord.meta.settings import FewShotSettings

    return FewShotSettings.read(folder)


def questions(folder: Path) -> Any:
    """A file that `predict` is given."""
    from gradaccord.train.predict import read_lines

    path = folder / "a.jsonl"
    return list(read_lines(File(path).lines(), str(path)))


def run_seeds() -> dict[str, Seed]:
    """All of them by name."""
    from gradaccord.meta.settings import FewShotSettings

    chosen = FewShotSettings().model_dump_json().encode()
    inside = {f"run/{name}": content for name, content in run_files().items()}
    return {
        "run folder": Seed(inside, report, damaged_file),
        "comparison folder": Seed(
            {f"run/{name}": content for name, content in comparison_folder().items()},
            report,
            damaged_file,
        ),
        "fewshot settings": Seed({"settings.json": chosen}, settings, damaged_json),
        "predict file": Seed(
            {"a.jsonl": lines({"text": "a"}, {"text": "b"})}, questions, damaged_lines
        ),
    }
