"""A whole model in one folder, whose trunk Hugging Face's `AutoModel.from_pretrained` reads.

    config.json, model.safetensors    the trunk, in Hugging Face's layout
    tokenizer.json, ...               its tokenizer
    heads.safetensors                 the weights of all heads
    gradaccord.json                   which tasks there are, and which head each reads

`gradaccord.tasks.saved_models` writes and reads such folders for tasks; here are the files.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradaccord.data.files.bad_files import reading, writing
from gradaccord.models.multitask import MultiTaskModel, with_head_keys
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.loading import ANEW, load_trunk
from gradaccord.models.trunks.trunk import Trunk

FORMAT = 1
DESCRIPTION, HEADS = "gradaccord.json", "heads.safetensors"


@dataclass(frozen=True)
class TaskEntry:
    """What is saved of a task: enough to build it and its head again."""

    kind: str
    options: Mapping[str, Any]
    own_files: Mapping[str, Any] = field(default_factory=dict)  # how they were read; {}: it has none


# The head of a task on a trunk, with fresh weights.
NewHead = Callable[[TaskEntry, Trunk], nn.Module]


def save_model(
    folder: str | Path, model: MultiTaskModel, tokens: Tokens, tasks: Mapping[str, TaskEntry]
) -> None:
    """Write the whole folder; if anything fails, it stays as it was.

    An existing folder is replaced only if it holds a saved model or is empty.
    """
    folder = Path(folder)
    unknown = [task for task in tasks if task not in model.head_of]
    if unknown:
        raise ValueError(f"Task {unknown[0]!r} has no head: the model has {', '.join(model.head_of)}.")
    described = {
        "format": FORMAT,
        "trunk": model.trunk.options(),
        "dtype": str(next(model.trunk.parameters()).dtype).removeprefix("torch."),
        "tasks": {
            name: {
                "kind": task.kind,
                "head": model.head_of[name],
                "options": dict(task.options),
                "own_files": dict(task.own_files),
            }
            for name, task in tasks.items()
        },
    }
    with _written_as_a_whole(folder) as part:
        model.trunk.save(part)
        tokens.save(part)
        _save_heads(model, part / HEADS)
        (part / DESCRIPTION).write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n")
        for weights in part.glob("*.safetensors"):  # which safetensors lets the owner alone read
            shutil.copymode(part / DESCRIPTION, weights)


def load_model(
    folder: str | Path, new_head: NewHead
) -> tuple[MultiTaskModel, Tokens, dict[str, TaskEntry]]:
    """Read what `save_model` wrote: the same outputs, bit for bit. The model is in evaluation mode."""
    folder = Path(folder)
    tasks = saved_tasks(folder)
    with reading(folder / DESCRIPTION, ANEW):
        described = _description(folder)
        head_of = {name: str(entry["head"]) for name, entry in described["tasks"].items()}
        trunk_options, dtype = dict(described["trunk"]), getattr(torch, described["dtype"])
    trunk, tokens = load_trunk(folder, **trunk_options)
    heads: dict[str, nn.Module] = {}
    with reading(folder / DESCRIPTION, ANEW):
        for name, task in tasks.items():
            if head_of[name] not in heads:
                heads[head_of[name]] = new_head(task, trunk)
        model = MultiTaskModel(trunk, heads, head_of).to(dtype)
    _load_heads(model, folder / HEADS)
    return model.eval(), tokens, tasks


def saved_tasks(folder: Path) -> dict[str, TaskEntry]:
    """What was saved of each task, without the weights."""
    with reading(folder / DESCRIPTION, ANEW):
        return {
            name: TaskEntry(str(entry["kind"]), dict(entry["options"]), _own_files(entry))
            for name, entry in _description(folder)["tasks"].items()
        }


def _own_files(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Models of 0.1 have the column of each field alone."""
    return dict(entry.get("own_files") or {"columns": dict(entry.get("columns", {}))})


def _save_heads(model: MultiTaskModel, path: Path) -> None:
    from safetensors.torch import save_file

    weights = model.heads.state_dict()
    # Cloned: safetensors refuses tensors that share memory.
    save_file({name: value.detach().cpu().clone() for name, value in weights.items()}, str(path))


def _load_heads(model: MultiTaskModel, path: Path) -> None:
    from safetensors.torch import load_file

    with reading(path, ANEW):
        weights = load_file(str(path))
    weights = with_head_keys(weights, model.head_of.values(), weights, prefix="")
    expected = model.heads.state_dict()
    for name, value in expected.items():
        found = weights.get(name)
        if found is None or found.shape != value.shape:
            shape = None if found is None else tuple(found.shape)
            raise ValueError(
                f"{path} has {name!r} of shape {shape} where the tasks in {DESCRIPTION} need "
                f"{tuple(value.shape)}: the two files do not belong together."
            )
    model.heads.load_state_dict({name: weights[name] for name in expected})


def _description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not path.is_file():
        raise ValueError(f"{path} is not there: give a folder that a model was saved to.")
    with reading(path, ANEW):
        described = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise ValueError(f"{path} is not of format {FORMAT}: load it with the version that wrote it.")
    return described


@contextmanager
def _written_as_a_whole(folder: Path) -> Iterator[Path]:
    """A new folder beside the wanted one, which takes its place at the end."""
    if folder.exists() and not (folder.is_dir() and _replaceable(folder)):
        raise ValueError(f"{folder} exists and is not a saved model: give another folder.")
    folder = folder.absolute()
    part, old = (folder.with_name(f".{folder.name}.{end}") for end in ("tmp", "old"))
    for left in (part, old):  # by a kill
        shutil.rmtree(left, ignore_errors=True)
    try:
        with writing(folder):
            part.mkdir(parents=True)
            yield part
            _replace(folder, part, old)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _replaceable(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file() or not any(folder.iterdir())


def _replace(folder: Path, part: Path, old: Path) -> None:
    if not folder.exists():
        os.rename(part, folder)
        return
    os.rename(folder, old)
    try:
        os.rename(part, folder)
    except BaseException:
        with suppress(OSError):
            os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
