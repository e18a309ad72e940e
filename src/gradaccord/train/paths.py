"""Paths in a configuration start at the folder of its file, wherever a command is run."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradaccord.data.registry import HUB
from gradaccord.train.config import with_files

RULE = "relative paths start at the folder of the YAML file, on the command line at the current one"


def located(content: Any, folder: Path) -> Any:
    """A copy of plain dictionaries in which every path is absolute; relative ones start at `folder`.

    What may also be a name (a model, a set of the hub, a text of a probe) is a path if it starts like
    one (`./`, `~`) or exists. What is not a mapping is returned unchanged, to be refused later.
    """
    content = copy.deepcopy(content)
    if not isinstance(content, dict):
        return content
    tasks = _mapping(content, "tasks")
    for name, task in tasks.items():
        if isinstance(task, str):
            tasks[name] = _set(task, folder)
        elif isinstance(task, dict):
            task = tasks[name] = with_files(task)
            if "data" in task:
                task["data"] = _set(task["data"], folder)
            files = _mapping(task, "files")
            for split, given in files.items():
                files[split] = _files(given, folder)
    model = content.get("model")
    if isinstance(model, dict) and "name" in model:
        model["name"] = _model(model["name"], folder)
    elif isinstance(model, str):
        content["model"] = _model(model, folder)
    if isinstance(content.get("data_folder"), str):
        content["data_folder"] = _path(content["data_folder"], folder)
    probe = _mapping(content, "probe")
    texts = _mapping(probe, "masked_lm")
    for name, text in texts.items():
        texts[name] = _name_or_path(text, folder, Path.is_file)
    if "masked_lm_model" in probe:
        probe["masked_lm_model"] = _model(probe["masked_lm_model"], folder)
    return content


def _mapping(content: dict[str, Any], key: str) -> dict[str, Any]:
    found = content.get(key)
    return found if isinstance(found, dict) else {}


def _files(given: Any, folder: Path) -> Any:
    if isinstance(given, list):
        return [_files(each, folder) for each in given]
    return _path(given, folder) if isinstance(given, str) else given


def _set(given: Any, folder: Path) -> Any:
    if not isinstance(given, str) or not given.startswith(HUB):
        return given
    return HUB + _name_or_path(given.removeprefix(HUB), folder, Path.is_dir)


def _model(given: Any, folder: Path) -> Any:
    from gradaccord.models.trunks.loading import trunk_options

    if isinstance(given, str) and trunk_options(given) is not None:
        return given
    return _name_or_path(given, folder, Path.is_dir)


def _name_or_path(given: Any, folder: Path, there: Callable[[Path], bool]) -> Any:
    if not isinstance(given, str):
        return given
    path = _path(given, folder)
    return path if given.startswith((".", "~")) or there(Path(path)) else given


def _path(given: str, folder: Path) -> str:
    return os.path.normpath(folder / Path(given).expanduser())
