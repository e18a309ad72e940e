"""Configurations that come with the library: one for each kind of experiment in the papers."""

from __future__ import annotations

from importlib import resources


def recipe_texts() -> dict[str, str]:
    """The recipes' files by name, sorted."""
    files = [file for file in resources.files(__name__).iterdir() if file.name.endswith(".yaml")]
    texts = {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in files}
    return dict(sorted(texts.items()))
