"""Options as users write them: which a class takes by its signature, and whether each fits its type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from gradaccord.core.did_you_mean import closest, nearest

Found = TypeVar("Found")
Known: TypeAlias = Mapping[str, inspect.Parameter]

_YAML_WORDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "list_type": "a list",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "missing": "a longer list",
    "too_long": "a shorter list",
}


class OptionError(ValueError):
    """A name or option that does not exist, or a value of another type. option: its key."""

    def __init__(self, option: str, sentence: str) -> None:
        super().__init__(sentence)
        self.option = option


def options_of(made: Callable[..., Any], hidden: Iterable[str] = ()) -> dict[str, inspect.Parameter]:
    """The parameters of a function, or of a class and those bases that it hands `**options` on to.

    hidden: names of parameters that are not options.
    """
    found: dict[str, inspect.Parameter] = {}
    bases = reversed(made.__mro__) if isinstance(made, type) else (made,)
    for base in bases:
        if isinstance(base, type):
            if base is object or "__init__" not in vars(base):
                continue
            parameters = dict(inspect.signature(vars(base)["__init__"], eval_str=True).parameters)
            del parameters[next(iter(parameters))]  # self
        else:
            parameters = dict(inspect.signature(base, eval_str=True).parameters)
        rest = [p for p in parameters.values() if p.kind is p.VAR_KEYWORD]
        own = {n: p for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        found = found | own if rest else own
    return {name: option for name, option in found.items() if name not in set(hidden)}


def look_up(what: str, name: str, table: Mapping[str, Found]) -> Found:
    """The entry of a name in a table; for an unknown name the error suggests the nearest."""
    if name not in table:
        raise OptionError("name", f"{what} {name!r} is unknown: {nearest(name, table)}")
    return table[name]


def check_options(what: str, given: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """The options, converted to their types; one that is unknown, missing or unfit is refused."""
    for name in given:
        if name not in known:
            hint = nearest(str(name), known, "it takes")
            raise OptionError(str(name), f"{what} has no option {name!r}: {hint}")
    for name, option in known.items():
        if option.default is option.empty and name not in given:
            raise OptionError(name, f"{what} needs the option `{name}`: give it a value.")
    return {name: checked(name, value, known[name].annotation, what) for name, value in given.items()}


def checked(name: str, value: Any, wanted: Any, what: str = "") -> Any:
    """The value of an option, converted to its type: lists to tuples, whole numbers to floats.

    what: whose option it is, for the error message.
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    if wanted is inspect.Parameter.empty:
        return value
    adapter: TypeAdapter[Any] = TypeAdapter(wanted, config=ConfigDict(arbitrary_types_allowed=True))
    try:
        return adapter.validate_python(tuple(value) if isinstance(value, list) else value, strict=True)
    except ValidationError as error:
        words = [word for one in error.errors(include_url=False) for word in _words(one)]
    if adapter.core_schema["type"] == "nullable":
        words.append("null")
    words = list(dict.fromkeys(words)) or ["left out: it has no value that can be written"]
    several = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    sentence = f"{what}: `{name}` is {value!r}" if what else f"`{name}` is {value!r}"
    close = closest(str(value), [word.strip("'") for word in words if "'" in word], 0.6)
    if "a number" in words and re.fullmatch(r"[-+]?\d*,\d+", str(value)):
        close = str(value).replace(",", ".")
    if close:
        raise OptionError(name, f"{sentence}: did you mean {close!r}? (It may be {several}.)")
    raise OptionError(name, f"{sentence}: it must be {several}.")


def _words(error: Mapping[str, Any]) -> list[str]:
    """What pydantic wants instead, as one writes it in YAML."""
    if error["type"] == "is_instance_of" and error["ctx"]["class"] == "Sequence":
        return ["a list"]
    if error["type"] in ("is_instance_of", "callable_type"):  # which YAML cannot write
        return []
    if error["type"] == "literal_error":
        return re.findall("'[^']*'", error["ctx"]["expected"])
    word = _YAML_WORDS.get(error["type"], str(error["msg"]))
    inside = any(isinstance(part, int) for part in error["loc"])
    if inside and word in ("a number", "a whole number", "a text"):
        return [f"a list of {word.removeprefix('a ')}s"]
    return [word]
