"""The generated parts of the pages on kinds of task, from their classes and example classes."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

from docstrings import parts_of

from gradaccord.data.examples import EXAMPLES
from gradaccord.data.images.published import NAMES as IMAGES
from gradaccord.data.registry import sets
from gradaccord.tasks.registry import KINDS

# Options that mean the same in every kind.
COMMON = {
    "max_length": "the most tokens that one sequence may have.",
    "dropout": "before the head; `None`: as in the trunk.",
    "head": '"linear", "hidden" or a list of layer sizes.',
    "n_best": "spans kept for each window and question.",
    "null_threshold": "null odds up to which an answer is given.",
    "low": "the smallest value.",
    "high": "the largest value.",
    "seed": "seed of the masks in evaluation.",
    "cause": 'your own words for the question "cause".',
    "effect": 'your own words for the question "effect".',
}


def part(argument: str) -> str:
    """`<!-- kind: options tagging -->` and the like."""
    what, _, kind = argument.partition(" ")
    return PARTS[what](kind)


def _about(kind: str) -> str:
    found = parts_of(KINDS[kind])
    return "\n\n".join(text for text in (found.lead, found.notes) if text)


def _fields(kind: str) -> str:
    if kind not in EXAMPLES:
        return "Not read from tables."
    example = EXAMPLES[kind]
    rows = [f"| `{name}` | yes |" for name in example.needed]
    rows += [f"| `{name}` | {_when(name, example)} |" for name in example.optional]
    return "\n".join(["| Field | Needed |", "|---|---|", *rows])


def _when(name: str, example: Any) -> str:
    return "to train and to score" if name in example.targets[:1] else "no"


def _options(kind: str) -> str:
    cls: Any = KINDS[kind]
    about = COMMON | parts_of(cls).options
    rows = [
        f"| `{field.name}` | {_default(field)} | {about.get(field.name, '')} |"
        for field in fields(cls)
        if field.name != "metric"
    ]
    return "\n".join(["| Option | Default | Meaning |", "|---|---|---|", *rows])


def _default(field: Any) -> str:
    return (
        "must be given, or is read from the data"
        if field.default is MISSING
        else f"`{field.default!r}`"
    )


def metrics(kind: str) -> tuple[str, ...]:
    """The kind's metrics, the main one first."""
    cls: Any = KINDS[kind]
    return (cls.metric, *(one for one in get_args(get_type_hints(cls)["metric"]) if one != cls.metric))


def _metrics(kind: str) -> str:
    main, *others = metrics(kind)
    more = f" `metric:` may also be {' or '.join(f'`{one}`' for one in others)}." if others else ""
    return f"Models are chosen and compared by `{main}`.{more}"


def _sets(kind: str) -> str:
    """The names of published sets that are of the kind."""
    known = IMAGES if kind == "image" else [name for name, each in sets().items() if each.kind == kind]
    shown = ", ".join(f"`{name}`" for name in sorted(known))
    return f"As `data: NAME`: {shown}." if known else "None by name: give your own files."


PARTS = {
    "about": _about,
    "fields": _fields,
    "options": _options,
    "metrics": _metrics,
    "sets": _sets,
}


def overview(_: str) -> str:
    """A table of all kinds."""
    rows = [
        f"| [`{kind}`]({kind}.md) | {parts_of(KINDS[kind]).lead} | {', '.join(metrics(kind))} |"
        for kind in KINDS
    ]
    return "\n".join(["| Kind | What is learned | Metrics |", "|---|---|---|", *rows])
