"""Read a configuration file and its overrides; every mistake becomes one sentence with its line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from gradaccord.core.did_you_mean import nearest
from gradaccord.recipes import recipe_texts
from gradaccord.runs.files import damaged, write_atomic
from gradaccord.train.check_options import UnknownNameError, check_names
from gradaccord.train.config import Config
from gradaccord.train.paths import located
from gradaccord.train.yaml_text import LONGEST, Place, YamlError, read_yaml

MOST_SHOWN = 200  # characters of an override in a message


class ConfigError(ValueError):
    """A configuration that cannot be used."""


def read_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a YAML (or JSON) file, with `key.key=value` overrides applied.

    Relative paths in the file start at its folder, those of overrides at the current one.
    """
    path = Path(path)
    try:
        text = _text(path)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8."
        ) from error
    content, lines = parse_yaml(text, path)
    content = located(content, path.parent.resolve())
    places: dict[Place, str] = {place: f"{path}, line {line}" for place, line in lines.items()}
    for override in overrides if isinstance(content, dict) else ():
        changed = _apply(content, override)
        places = {place: at for place, at in places.items() if place[: len(changed)] != changed}
        places[changed] = f"The override {override!r}"
    return check_config(content, places, str(path))


def read_own_config(path: Path) -> Config:
    """The configuration that a run has written down for itself; what is wrong with it is damage."""
    remedy = "put the run's configuration back, or move its folder away"
    try:
        if not path.read_bytes().strip():
            raise damaged(path, "it is empty", remedy)
        return read_config(path)
    except FileNotFoundError as error:
        raise damaged(path, "it is missing", remedy) from error
    except ConfigError as error:
        why = str(error).removeprefix(str(path)).lstrip(",: ")
        raise damaged(path, why, remedy) from error


def _text(path: Path) -> str:
    """Of the file, or of the recipe of that name."""
    if path.suffix or path.exists():
        with path.open(encoding="utf-8") as file:
            return file.read(LONGEST + 1)  # longer ones are refused
    recipes = recipe_texts()
    if str(path) not in recipes:
        raise ConfigError(f"There is no file {path}, nor a recipe of that name: {', '.join(recipes)}.")
    return recipes[str(path)]


def check_config(
    content: Any, places: Mapping[Place, str] | None = None, source: str = "The configuration"
) -> Config:
    """A configuration from plain dictionaries. places: where each key was given, for messages.

    Its paths are absolute: what a run writes down is found from any folder.
    """
    if not isinstance(content, dict):
        raise ConfigError(f"{source} holds no mapping: start with `tasks:` (see `gradaccord init`).")
    try:
        config = Config.model_validate(located(content, Path.cwd()))
        check_names(config)
    except ValidationError as error:
        raise ConfigError(_sentence(error, places or {}, source)) from error
    except UnknownNameError as error:
        where = (places or {}).get(_nearest(error.place, places or {}), source)
        raise ConfigError(f"{where}: {error}") from error
    return config


def write_config(config: Config, path: Path) -> None:
    """Write every setting, defaults too, so that the file says all there is to say."""
    import yaml

    plain = config.model_dump(mode="json")  # as JSON text it would lose inf
    write_atomic(path, yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def parse_yaml(text: str, path: Path) -> tuple[Any, dict[Place, int]]:
    """What a YAML text holds, and the line of every key. path: for messages."""
    try:
        return read_yaml(text)
    except YamlError as error:
        raise ConfigError(error.about(path)) from error


def _apply(content: Any, override: str) -> Place:
    """Set one value; returns its place."""
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"The override {override!r} has no `=`: write key=value, e.g. train.lr=1e-4.")
    try:
        read, _ = read_yaml(value)
    except YamlError as error:
        raise ConfigError(f"The override {override[:MOST_SHOWN]!r} {error}.") from error
    return set_value(content, key.strip(), read, f"The override {override!r}")


def set_value(content: Any, key: str, value: Any, source: str) -> Place:
    """Set what stands at `key.key` in plain dictionaries; returns its place. source: for messages."""
    *path, last = key.split(".")
    target = content
    for part in path:
        inner = target.get(part)
        if isinstance(inner, str):  # `method: dotprod` and method.weight=0.2
            inner = {"data" if target is content.get("tasks") else "name": inner}
        target[part] = inner = {} if inner is None else inner
        if not isinstance(inner, dict):
            raise ConfigError(f"{source} goes into {part!r}, which holds {inner!r}.")
        target = inner
    target[last] = value
    return (*path, last)


def _sentence(error: ValidationError, places: Mapping[Place, str], source: str) -> str:
    """The first mistake, with the line it is on."""
    order = {place: i for i, place in enumerate(places)}
    first = min(error.errors(), key=lambda e: order.get(_nearest(e["loc"], places), len(order)))
    place = tuple(part for part in first["loc"])
    where = places.get(_nearest(place, places), source)
    shown = ".".join(str(part) for part in place if not str(part).startswith("function-"))
    if first["type"] == "extra_forbidden":
        parent, wrong = ".".join(map(str, place[:-1])) or "the top level", str(place[-1])
        known = list(_fields_at(place[:-1]))
        return f"{where}: {parent} has no key {wrong!r}: {nearest(wrong, known, 'it takes')}"
    if first["type"] == "missing":
        return f"{where}: `{shown}` is missing: give it a value."
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    message = message[:1].lower() + message[1:]
    given = first.get("input")
    value = "" if isinstance(given, dict | list | BaseModel) else f" is {given!r}"
    return f"{where}: `{shown}`{value}: {message}." if shown else f"{where}: {message}."


def _nearest(place: Sequence[str | int], places: Mapping[Place, str]) -> Place:
    here = tuple(place)
    while here and here not in places:
        here = here[:-1]
    return here


def _fields_at(place: Sequence[str | int]) -> Iterable[str]:
    """The keys that the section at a place takes."""
    model: Any = Config
    for part in place:
        if isinstance(model, type) and issubclass(model, BaseModel) and part in model.model_fields:
            model = _section(model.model_fields[str(part)].annotation)
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else ()


def _section(annotation: Any) -> Any:
    """The section inside an annotation such as `WarmStart | None` or `dict[str, Task]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        found = _section(inner)
        if found is not None:
            return found
    return None
