"""Read the configuration file of a training run; every mistake becomes one sentence with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradaccord.recipes import recipe_texts
from gradaccord.runs.config_files import (
    ConfigError,
    checked,
    nearest_place,
    own_config,
    read_content,
)
from gradaccord.runs.yaml_text import Place
from gradaccord.train.check_options import UnknownNameError, check_names
from gradaccord.train.config import Config
from gradaccord.train.paths import located


def read_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a YAML (or JSON) file, with `key.key=value` overrides applied.

    Relative paths in the file start at its folder, those of overrides at the current one.
    """
    content, places = read_content(Path(path), overrides, recipe_texts(), located)
    return check_config(content, places, str(path))


def read_own_config(path: Path) -> Config:
    """The configuration that a run wrote into its folder; a mistake in it counts as damage."""
    return own_config(path, read_config)


def check_config(
    content: Any, places: Mapping[Place, str] | None = None, source: str = "The configuration"
) -> Config:
    """A configuration from plain dictionaries. places: where each key was given, for messages.

    Its paths are absolute: what a run writes down is found from any folder.
    """
    given = places or {}
    config = checked(Config, located(content, Path.cwd()), given, source, "tasks")
    try:
        check_names(config)
    except UnknownNameError as error:
        where = given.get(nearest_place(error.place, given), source)
        raise ConfigError(f"{where}: {error}") from error
    return config
