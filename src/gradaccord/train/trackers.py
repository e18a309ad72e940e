"""The log of a run for experiment trackers, beside the JSON lines, through Accelerate."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gradaccord.data.files.bad_files import reason
from gradaccord.runs.files import read_json, write_json
from gradaccord.runs.log import StepRecord
from gradaccord.runs.results import EvaluationRecord

PROJECT = "gradaccord"
BOARD = "tensorboard"  # its folder in the run's
RUNS = "trackers.json"  # under which names a resumed run is continued
INSTALL = {BOARD: '"gradaccord[tensorboard]"'}  # others: the package of the same name


def tracking(names: Sequence[str], folder: Path | None) -> dict[str, Any]:
    """Tracking options for `Accelerator`; a tracker whose package is missing is refused.

    folder: of the run; None: nothing is tracked, but packages are still checked.
    """
    if not names:
        return {}
    from accelerate.tracking import get_available_trackers

    for name in names:
        if find_spec(name) is None or name not in map(str, get_available_trackers()):
            raise ModuleNotFoundError(
                f"`train.log_with` names {name} and the package is missing: pip install "
                f"{INSTALL.get(name, name)}.",
                name=name,
            )
    return {} if folder is None else {"log_with": list(names), "project_dir": str(folder / BOARD)}


class Trackers:
    """Writes the records of a log as scalars to all trackers that the Accelerator was made with."""

    def __init__(
        self,
        accelerator: Any,
        folder: Path,
        settings: Mapping[str, Any],
        resume_at: int | None = None,
    ) -> None:
        """settings: of the run. resume_at: the step to continue from; later records are dropped."""
        self.accelerator = accelerator
        names = [str(tracker) for tracker in accelerator.log_with]
        path = folder / RUNS
        runs = read_json(path) if resume_at is not None and path.is_file() else {}
        runs.setdefault("id", uuid.uuid4().hex[:16])
        options: dict[str, dict[str, Any]] = {
            BOARD: {"purge_step": None if resume_at is None else resume_at + 1},
            "wandb": {"id": runs["id"], "name": folder.name, "dir": str(folder), "resume": "allow"},
            "mlflow": {"run_name": folder.name, "run_id": runs.get("mlflow")},
            "trackio": {"name": f"{folder.name}-{runs['id'][:6]}", "resume": "allow"},
        }
        config = None if resume_at is not None else flat(settings)
        try:
            accelerator.init_trackers(PROJECT, config=config, init_kwargs=options)
        except Exception as error:  # each raises its own: no server, no account, no right to write
            raise ValueError(
                f"`train.log_with` is {', '.join(names)}, which could not be started "
                f"({reason(error)}): change its settings, or leave it out."
            ) from error
        if "mlflow" in names:
            runs["mlflow"] = accelerator.get_tracker("mlflow", unwrap=True).info.run_id
        write_json(path, runs)

    def write(self, record: StepRecord | EvaluationRecord) -> None:
        """Write the numbers of a record."""
        self.accelerator.log(dict(scalars(record)), step=record.step)

    def close(self) -> None:
        """Write through and close; `end_training` would also end the process group."""
        for tracker in self.accelerator.trackers:
            tracker.finish()
        self.accelerator.trackers.clear()


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as `train.lr`, with values that all trackers take."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        elif value is not None:
            found[prefix + key] = value if isinstance(value, bool | int | float) else _text(value)
    return found


def _text(value: Any) -> str:
    """A value as text; of an absolute path the last name, since folders of this machine are private."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    text = str(value)
    return os.path.basename(text) if os.path.isabs(text) else text


def scalars(record: StepRecord | EvaluationRecord) -> Iterator[tuple[str, float]]:
    """The numbers of a record by the names of their curves."""
    if isinstance(record, StepRecord):
        yield "training/lr", record.lr
        for task, loss in record.loss.items():
            yield f"loss/{task}", loss
        for name in ("cosine", "conflicts", "dot"):
            if (value := getattr(record, name)) is not None:
                yield f"alignment/{name}", value
        for name, value in (record.extras or {}).items():
            yield f"method/{name}", value
        return
    yield "scores/average", record.average
    for task, scores in record.scores.items():
        for metric, value in scores.items():
            yield f"scores/{task}/{metric}", value
    if record.task_cosine is not None:
        yield "alignment/task_cosine", record.task_cosine.mean
    if record.distance is not None:
        yield "distance/total", record.distance.total
    for name, loss in (record.masked_lm or {}).items():
        yield f"masked_lm/{name}", loss
