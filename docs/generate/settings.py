"""The keys of a configuration as tables, from the classes that read it."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from parts import table
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gradaccord.train import config


def settings(name: str) -> str:
    """Every key of a section: what it takes, its default and meaning."""
    section: type[BaseModel] = getattr(config, name)
    rows = [
        (f"`{key}`", _kind(field.annotation), _default(field), field.description or "")
        for key, field in section.model_fields.items()
    ]
    return table(("Key", "Value", "Default", "Meaning"), rows)


def _kind(annotation: Any) -> str:
    """A type in the words of a YAML file."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inside[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_kind(one) for one in inside if one is not NoneType))
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in inside)
    if origin is list:
        return f"list of {_kind(inside[0])}"
    if origin is dict:
        return f"name: {_kind(inside[1])}"
    if issubclass(annotation, BaseModel):
        return f"[`{annotation.__name__}`][{annotation.__module__}.{annotation.__name__}]"
    words = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return words.get(annotation, annotation.__name__.lower())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):  # by its name, where that is what is written
        default = getattr(default, "name", None)
    if default is None or default in ([], {}):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
