"""IOB2 tags: the list of them, whether a sequence can be, and the likeliest sequence that can."""

from __future__ import annotations

from collections.abc import Sequence

import torch

OUTSIDE = "O"


def tag_names(types: Sequence[str]) -> tuple[str, ...]:
    """O, then B- and I- of each entity type."""
    return (OUTSIDE, *(f"{edge}-{kind}" for kind in types for edge in "BI"))


def check_tags(tags: Sequence[str], known: Sequence[str], where: str) -> None:
    """A tag that is unknown, or an I- that continues nothing of its type, is an error."""
    before = OUTSIDE
    for place, tag in enumerate(tags):
        if tag not in known:
            raise ValueError(
                f"{where} has the tag {tag!r} at word {place + 1}: use one of {', '.join(known)}."
            )
        if tag.startswith("I-") and before[2:] != tag[2:]:
            raise ValueError(
                f"{where} has {tag!r} at word {place + 1} after {before!r}: in IOB2 an entity begins "
                f"with 'B-{tag[2:]}'."
            )
        before = tag


def best_sequence(scores: torch.Tensor, names: Sequence[str]) -> list[int]:
    """The sequence of the highest total score among those that IOB2 allows (Viterbi).

    scores: [words, tags].
    """
    forbidden = torch.tensor(
        [[after.startswith("I-") and before[2:] != after[2:] for after in names] for before in names],
        device="cpu",
    )
    move = torch.zeros(forbidden.shape, dtype=scores.dtype, device="cpu").masked_fill(
        forbidden, -torch.inf
    )
    total = scores[0] + move[names.index(OUTSIDE)]
    back = []
    for word in scores[1:]:
        best, source = (total.unsqueeze(1) + move).max(0)
        back.append(source)
        total = best + word
    path = [int(total.argmax())]
    for source in reversed(back):
        path.append(int(source[path[-1]]))
    return path[::-1]
