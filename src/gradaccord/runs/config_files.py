"""Configurations in YAML files, with overrides; every mistake becomes one sentence with its line.

The pydantic model of each command defines the keys, e.g. `train.config`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from gradaccord.core.did_you_mean import nearest
from gradaccord.recipes import COMMANDS, recipe_texts
from gradaccord.runs.files import damaged, write_atomic
from gradaccord.runs.yaml_text import LONGEST, Place, YamlError, read_yaml

MOST_SHOWN = 200  # characters of an override in a message

C = TypeVar("C", bound=BaseModel)


class ConfigError(ValueError):
    """A configuration that cannot be used."""


def read_content(
    path: Path,
    overrides: Sequence[str],
    recipes: Mapping[str, str],
    located: Callable[[Any, Path], Any],
) -> tuple[Any, dict[Place, str]]:
    """Plain values of a YAML (or JSON) file or recipe, with `key.key=value` overrides applied, and
    where each was given, for messages.

    located: makes relative paths absolute; those of the file start at its folder.
    """
    try:
        text = _text(path, recipes)
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
    return content, places


def _text(path: Path, recipes: Mapping[str, str]) -> str:
    """The text of the file, or of the recipe of that name."""
    if path.suffix or path.exists():
        with path.open(encoding="utf-8") as file:
            return file.read(LONGEST + 1)  # longer ones are refused
    if str(path) not in recipes:
        for command in COMMANDS:
            if str(path) in recipe_texts(command):
                raise ConfigError(
                    f"The recipe {path} is for another command: `gradaccord {command} {path}`."
                )
        raise ConfigError(f"There is no file or recipe {path}: the recipes are {', '.join(recipes)}.")
    return recipes[str(path)]


def checked(
    model: type[C], content: Any, places: Mapping[Place, str], source: str, first_key: str
) -> C:
    """A configuration from plain values. first_key: the key to start with, for messages."""
    if not isinstance(content, dict):
        raise ConfigError(
            f"{source} holds no mapping: start with `{first_key}:` (see `gradaccord init`)."
        )
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigError(_sentence(model, error, places, source)) from error


def own_config(path: Path, read: Callable[[Path], C]) -> C:
    """The configuration that a run wrote into its folder; a mistake in it counts as damage."""
    remedy = "put the run's configuration back, or move its folder away"
    try:
        if not path.read_bytes().strip():
            raise damaged(path, "it is empty", remedy)
        return read(path)
    except FileNotFoundError as error:
        raise damaged(path, "it is missing", remedy) from error
    except ConfigError as error:
        why = str(error).removeprefix(str(path)).lstrip(",: ")
        raise damaged(path, why, remedy) from error


def write_config(config: BaseModel, path: Path) -> None:
    """Write every setting, defaults included."""
    import yaml

    plain = config.model_dump(mode="json")  # as JSON text it would lose inf
    write_atomic(path, yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def parse_yaml(text: str, path: Path) -> tuple[Any, dict[Place, int]]:
    """The values of a YAML text, and the line of every key. path: for messages."""
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


def read_value(text: str) -> Any:
    """An option's value as YAML reads it; a number may also be written as in Python."""
    try:
        value, _ = read_yaml(text)
    except YamlError as error:
        raise ValueError(f"The value {text[:MOST_SHOWN]!r} {error}.") from error
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def set_value(content: Any, key: str, value: Any, source: str) -> Place:
    """Set the value at `key.key` in plain dictionaries; returns its place. source: for messages."""
    *path, last = key.split(".")
    target = content
    for part in path:
        inner = target.get(part)
        if isinstance(inner, str):  # `method: dotprod` and method.weight=0.2
            inner = {"data" if target is content.get("tasks") else "name": inner}
        target[part] = inner = {} if inner is None else inner
        if not isinstance(inner, dict):
            raise ConfigError(
                f"{source} sets a key of {part!r}, which is {inner!r} and has no keys: leave it out."
            )
        target = inner
    target[last] = value
    return (*path, last)


_TYPES = (
    "function-",
    "constrained-",
    "dict[",
    "list[",
)  # what pydantic appends to a place with several types


def _sentence(
    model: type[BaseModel], error: ValidationError, places: Mapping[Place, str], source: str
) -> str:
    """The first mistake, with the line it is on."""
    order = {place: i for i, place in enumerate(places)}
    first = min(error.errors(), key=lambda e: order.get(nearest_place(e["loc"], places), len(order)))
    place = tuple(part for part in first["loc"])
    where = places.get(nearest_place(place, places), source)
    shown = ".".join(str(part) for part in place if not str(part).startswith(_TYPES))
    if first["type"] == "extra_forbidden":
        parent, wrong = ".".join(map(str, place[:-1])) or "the top level", str(place[-1])
        known = list(_fields_at(model, place[:-1]))
        return f"{where}: {parent} has no key {wrong!r}: {nearest(wrong, known, 'it takes')}"
    if first["type"] == "missing":
        return f"{where}: `{shown}` is missing: give it a value."
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    message = message[:1].lower() + message[1:]
    given = first.get("input")
    value = "" if isinstance(given, dict | list | BaseModel) else f" is {given!r}"
    return f"{where}: `{shown}`{value}: {message}." if shown else f"{where}: {message}."


def nearest_place(place: Sequence[str | int], places: Mapping[Place, str]) -> Place:
    """The innermost part of a place whose line or override is known."""
    here = tuple(place)
    while here and here not in places:
        here = here[:-1]
    return here


def _fields_at(model: Any, place: Sequence[str | int]) -> Iterable[str]:
    """The keys that the section at a place takes."""
    for part in place:
        if isinstance(model, type) and issubclass(model, BaseModel) and part in model.model_fields:
            model = section_in(model.model_fields[str(part)].annotation)
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else ()


def section_in(annotation: Any) -> Any:
    """The section inside an annotation such as `WarmStart | None` or `dict[str, Task]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        found = section_in(inner)
        if found is not None:
            return found
    return None
