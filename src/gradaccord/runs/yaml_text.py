"""The only reader of YAML: plain values, and the line of every key; hostile files are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

Place = tuple[str | int, ...]

LONGEST = 1 << 20  # characters
DEEPEST = 40  # lists and mappings inside one another
MOST = 100_000  # values, those of an alias counted at each use

TEXT, MERGE, WHOLE = (f"tag:yaml.org,2002:{name}" for name in ("str", "merge", "int"))


class YamlError(ValueError):
    """A text that cannot be used. The message has no subject: see `about`. line: where, if known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line

    def about(self, source: object) -> str:
        """The whole sentence. source: the file or option that holds the text."""
        return f"{source}, {'' if self.line is None else f'line {self.line}, '}{self}."


def read_yaml(text: str) -> tuple[Any, dict[Place, int]]:
    """The values of a YAML text, and the line of every key and item."""
    import yaml

    if len(text) > LONGEST:
        raise YamlError(f"is longer than {LONGEST:,} characters: shorten it")
    node = None
    try:
        _check_depth(text)
        loader = _loader()(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, {}
            _measure(node, {})
            lines = dict(_lines(node, ()))
            return loader.construct_document(node), lines
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise YamlError(f"is not YAML: {problem}", None if mark is None else mark.line + 1) from error
    except RecursionError as error:  # by way of aliases
        raise _too_deep(node) from error
    except YamlError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        # Raised by YAML's own readers of dates and numbers.
        raise YamlError(
            f"holds a value that looks like another type ({error}): put it in quotes",
            _line(node),
        ) from error


@cache
def _loader() -> Any:
    """YAML's safe loader that also reads 2e-5 as a number."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        pass

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
        list("-+0123456789."),
    )
    return Loader


def _check_depth(text: str) -> None:
    """Refuse deep nesting before anything is built: YAML builds by recursion."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _too_deep(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _measure(node: Any, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """How many values stand below a node, aliases followed, and how deep; also checks its keys."""
    import yaml

    if id(node) in known:
        found = known[id(node)]
        if found is None:
            raise YamlError("has an alias that refers to itself", _line(node))
        return found
    known[id(node)] = None
    inner = []
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        inner = [value for pair in node.value for value in pair]
    elif isinstance(node, yaml.SequenceNode):
        inner = node.value
    parts = [_measure(value, known) for value in inner]
    count = 1 + sum(own for own, _ in parts)
    depth = max((own for _, own in parts), default=0) + isinstance(node, yaml.CollectionNode)
    if count > MOST:
        raise YamlError(f"has more than {MOST:,} values once its aliases are followed", _line(node))
    if depth > DEEPEST:
        raise _too_deep(node)
    known[id(node)] = count, depth
    return count, depth


def _check_keys(node: Any) -> None:
    import yaml

    seen = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise YamlError("has a list or a mapping as a key: keys are names", _line(key))
        if key.tag == WHOLE and key.value.isdigit():
            key.tag = TEXT  # classes and columns may be numbers, and keep their leading zeros
        if key.tag not in (TEXT, MERGE):
            raise YamlError(
                f"has the key {key.value!r}, which is not text: put it in quotes", _line(key)
            )
        if key.value in seen:
            raise YamlError(f"is not YAML: the key {key.value!r} is given twice", _line(key))
        seen.add(key.value)


def _lines(node: Any, place: Place) -> Iterable[tuple[Place, int]]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*place, key.value)
            yield here, key.start_mark.line + 1
            yield from _lines(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield (*place, i), value.start_mark.line + 1
            yield from _lines(value, (*place, i))


def _too_deep(node: Any) -> YamlError:
    return YamlError(f"is nested more than {DEEPEST} deep: nest it less", _line(node))


def _line(node: Any) -> int | None:
    return None if node is None else node.start_mark.line + 1
