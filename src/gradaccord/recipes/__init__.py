"""Configurations that come with the library: one for each kind of experiment in the papers."""

from __future__ import annotations

from importlib import resources
from typing import Literal, get_args

Command = Literal["train", "pretrain"]
COMMANDS: tuple[Command, ...] = get_args(Command)


def recipe_texts(command: Command = "train") -> dict[str, str]:
    """The files of a command's recipes by name, sorted; those of `pretrain` are in its own folder."""
    folder = resources.files(__name__)
    place = folder / command if command == "pretrain" else folder
    files = [file for file in place.iterdir() if file.name.endswith(".yaml")]
    texts = {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in files}
    return dict(sorted(texts.items()))
