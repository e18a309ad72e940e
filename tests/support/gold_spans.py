"""The texts that the gold spans of encoded questions stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Question
from gradaccord.tasks.qa.windows import NULL


def recovered(examples: Sequence[Question], encoded: Encoded) -> Iterator[str | None]:
    """The text that the gold span of tokens stands for in each example; None if no window holds it."""
    best: dict[int, str] = {}
    starts, ends = encoded.aside["from"], encoded.aside["to"]
    first = encoded.columns["context"][:, 0]
    for row in (encoded.columns["start"] > NULL).nonzero().flatten().tolist():
        place = int(encoded.example[row])
        begin = int(encoded.columns["start"][row] - first[row])
        stop = int(encoded.columns["end"][row] - first[row])
        characters = slice(int(starts[row][begin]), int(ends[row][stop]))
        best.setdefault(place, examples[place].context[characters].strip())
    return (best.get(place) for place in range(len(examples)))
