"""IOB2 tags: known types only, and what cannot follow repaired or refused.

An I- tag that continues nothing (after O, or after another type) cannot be in IOB2. Published files
have such tags; `repair` reads them as B-, which is also how IOB1 is turned into IOB2 and how seqeval
and conlleval count them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from gradaccord.data.files.layouts import Wanted

REPAIRED = "tags I- that began an entity read as B-"


def checked(
    tags: Sequence[str], types: tuple[str, ...], wanted: Wanted, where: Callable[[int], str]
) -> list[str]:
    """IOB2 tags of known types, repaired and counted; an error if `wanted` is strict.

    where: how an error begins, by the number of the tag.
    """
    for place, tag in enumerate(tags):
        if tag not in tags_of(types):
            raise ValueError(
                f"{where(place)}: the tag {tag!r} is not O, or B- or I- with one of {', '.join(types)}."
            )
    repaired, count = repair(tags)
    if count and wanted.iob == "strict":
        place = next(i for i, (new, old) in enumerate(zip(repaired, tags, strict=True)) if new != old)
        previous = tags[place - 1] if place else "O"
        raise ValueError(
            f"{where(place)}: the tag {tags[place]!r} cannot follow {previous!r}: an entity begins "
            f"with {repaired[place]}; the option iob 'repair' reads it so."
        )
    wanted.note(REPAIRED, count)
    return repaired


def repair(tags: Sequence[str]) -> tuple[list[str], int]:
    """The tags with every I- that continues nothing as B-, and how many there were."""
    repaired, count, previous = [], 0, "O"
    for tag in tags:
        if tag[0] == "I" and previous[1:] != tag[1:]:
            tag = f"B{tag[1:]}"
            count += 1
        repaired.append(tag)
        previous = tag
    return repaired, count


@lru_cache(maxsize=16)
def tags_of(types: tuple[str, ...]) -> frozenset[str]:
    """O, and B- and I- with every type."""
    return frozenset({f"{begin}-{kind}" for kind in types for begin in "BI"} | {"O"})
