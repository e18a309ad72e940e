"""Two folders of runs compared bit by bit: weights, results and logs, without times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from gradaccord.runs.checkpoints import CHECKPOINTS, CheckpointError, Checkpoints, load

TIMES = re.compile(r"(.*_)?(seconds|processor|memory_mb|memory|finished|log_bytes)")
# Pages, pictures and trackers' files hold times; the database is compared by its trials.
NOT_COMPARED = re.compile(
    r"about\.json|trackers\.json|sums\.json|output\.txt|\.lock|.*\.(html|png|svg|md|csv|db|lock)"
)
WEIGHTS = (".safetensors", ".pt")


def differences(folder: Path, whole: Path) -> list[str]:
    """Every file below the folder that is not as in the undisturbed one."""
    one, other = _files(folder), _files(whole)
    found = [f"{name} is there in one alone" for name in sorted(one.keys() ^ other.keys())]
    for name in sorted(one.keys() & other.keys()):
        if not same(_content(one[name], folder), _content(other[name], whole)):
            found.append(f"{name} differs")
    return found


def log_faults(folder: Path, whole: Path) -> list[str]:
    """After a kill: checkpoints that cannot be read, and what the log up to the last one lacks."""
    found = []
    for log in sorted(folder.rglob("log.jsonl")):
        run = log.parent
        saved = Checkpoints(run / CHECKPOINTS).all()
        for path in saved:
            try:
                load(path)
            except CheckpointError as error:
                found.append(str(error))
        if saved:
            name = run.relative_to(folder)
            last = int(saved[-1].name.removeprefix("step-"))
            expected = [r for r in records(whole / name / "log.jsonl") if number(r) <= last]
            if not same([r for r in records(log) if number(r) <= last], expected):
                found.append(f"the log {name} is not whole up to {saved[-1].name}")
    return found


def records(log: Path) -> list[dict[str, Any]]:
    """The whole lines of a log, without times."""
    lines = log.read_bytes().split(b"\n")[:-1]  # the last one may be cut off
    return [timeless(json.loads(line)) for line in lines]


def number(record: dict[str, Any]) -> int:
    """The step of a record."""
    return int(record.get("step", record.get("iteration", 0)))


def timeless(value: Any) -> Any:
    """Without the values that are times or memory."""
    if isinstance(value, dict):
        found = {k: timeless(v) for k, v in value.items() if not TIMES.fullmatch(str(k))}
        if "episodes" in found and "means" in found:  # few-shot: what else holds seconds
            found["means"] = found["means"][:2]
            found["history"] = [entry[:3] for entry in found["history"]]
        return found
    if isinstance(value, list | tuple):
        return [timeless(one) for one in value]
    return value


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and _bits(a) == _bits(b)
    if isinstance(a, dict):
        return isinstance(b, dict) and [*a] == [*b] and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def _bits(tensor: torch.Tensor) -> tuple[torch.Size, bytes]:
    return tensor.shape, tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _files(folder: Path) -> dict[str, Path]:
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    found = {name: path for name, path in found.items() if "tensorboard" not in Path(name).parts}
    kept = {name: path for name, path in found.items() if not NOT_COMPARED.fullmatch(path.name)}
    return kept | {name: path for name, path in found.items() if path.name == "sweep.db"}


def _content(path: Path, folder: Path) -> Any:
    if path.name == "log.jsonl":
        return records(path)
    if path.suffix == ".pt":
        return timeless(torch.load(path, map_location="cpu", weights_only=True))
    if path.name == "sweep.db":
        return list(_trials(path))
    if path.suffix == ".safetensors":
        return path.read_bytes()
    text = path.read_text(encoding="utf-8").replace(str(folder), "FOLDER")
    return timeless(json.loads(text)) if path.suffix == ".json" else text


def _trials(path: Path) -> Iterator[list[Any]]:
    from gradaccord.compare.study import read_study

    for trial in read_study(path.parent).trials:
        yield [trial.number, trial.state.name, trial.params, trial.value]
