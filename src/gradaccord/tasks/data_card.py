"""What the data of a task is like: sizes, classes, empty and repeated texts, lengths, one example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import EXAMPLES, Example
from gradaccord.models.tokens import Tokens
from gradaccord.tasks.prepare import Prepared
from gradaccord.tasks.task import Task

MOST = 200_000  # examples of a split that are looked at one by one
CUT = 0.1  # share of truncated sequences above which there is a warning
TEXT = 400  # characters of the example that are kept
PERCENTILES = (50, 95, 99, 100)
_NO_INPUT = ("id", "language", "group")  # fields that two different examples may share


@dataclass(frozen=True)
class SplitCard:
    """One split. Examples are counted among those looked at.

    empty: with an empty text. repeated: the same example occurs earlier in the split;
    contradictions: with another label. also_in: an earlier split -> how many also occur there.
    lengths: tokens of a row, by percentile (50, 95, 99, 100). cut: share of sequences truncated.
    """

    examples: int
    looked_at: int
    labelled: int
    classes: Mapping[str, int] = field(default_factory=dict)
    empty: int = 0
    repeated: int = 0
    contradictions: int = 0
    also_in: Mapping[str, int] = field(default_factory=dict)
    lengths: Mapping[int, int] = field(default_factory=dict)
    cut: float = 0.0

    @property
    def absent(self) -> list[str]:
        """Classes without an example, of a split that is labelled."""
        return [name for name, count in self.classes.items() if not count] if self.labelled else []

    @property
    def balance(self) -> str:
        """The classes with their shares, the largest first."""
        total = sum(self.classes.values())
        shown = sorted(self.classes.items(), key=lambda one: -one[1]) if total else []
        return ", ".join(f"{name} {100 * count / total:.1f} %" for name, count in shown)


@dataclass(frozen=True)
class DataCard:
    """The data of one task. example: the tokens of its first row, decoded; answer: its right answer."""

    task: str
    kind: str
    splits: Mapping[str, SplitCard]
    example: str = ""
    answer: str = ""
    max_length: int | None = None

    @property
    def warnings(self) -> list[str]:
        """What may be wrong, a sentence each."""
        return [
            f"{self.task} {split}: {w}." for split, own in self.splits.items() for w in self._of(own)
        ]

    def _of(self, own: SplitCard) -> Iterator[str]:
        if own.cut > CUT:
            limit = "" if self.max_length is None else f" at {self.max_length} tokens"
            yield f"{own.cut:.1%} of the texts are cut{limit}: raise `max_length` if the model can"
        if own.absent:
            yield f"no example of the class {', '.join(own.absent)}"
        if own.empty:
            yield f"{own.empty:,} examples have an empty text"
        if own.contradictions:
            yield f"{own.contradictions:,} examples repeat another one with a different label"
        for earlier, count in own.also_in.items():
            if count:
                yield f"{count:,} of {own.looked_at:,} examples also occur in {earlier}"


def data_card(prepared: Prepared, tokens: Tokens) -> DataCard:
    """Look at a task's data once: about 10 microseconds per example, at most `MOST` of a split."""
    task, keys = prepared.task, dict[str, set[int]]()
    splits = {}
    for split, examples in prepared.splits.items():
        splits[split], own = _split(task, examples[:MOST], prepared.encoded[split], len(examples), keys)
        keys[split] = own
    first = next(iter(prepared.splits), None)
    shown = answer = ""
    if first is not None and len(prepared.encoded[first]):
        encoded = prepared.encoded[first]
        shown = seen_by_the_model(encoded, tokens)
        gold = task.gold(prepared.splits[first][int(encoded.example[0])])
        answer = "" if gold is None else str(gold)[:TEXT]
    return DataCard(
        task=prepared.name,
        kind=task.kind,
        splits=splits,
        example=shown[:TEXT],
        answer=answer,
        max_length=None if task.max_length is None else min(task.max_length, tokens.max_length),
    )


def seen_by_the_model(encoded: Encoded, tokens: Tokens) -> str:
    """The sequences of the first row as text, special tokens and all."""
    if encoded.ids is None:
        return ""
    places = range(int(encoded.first[0]), int(encoded.first[1]))
    return " / ".join(tokens.decode(encoded.ids[place].tolist(), special=True) for place in places)


def _split(
    task: Task[Any],
    examples: Sequence[Any],
    encoded: Encoded,
    total: int,
    earlier: Mapping[str, set[int]],
) -> tuple[SplitCard, set[int]]:
    """The card of a split, and the hashes of what its examples ask."""
    golds = [task.gold(example) for example in examples]
    known = [gold for gold in golds if gold is not None]
    names = task.class_names
    counted = (
        Counter(name for gold in known for name, _ in task.class_pairs(gold, gold)) if names else {}
    )
    shape = EXAMPLES.get(task.kind)
    repeated, contradictions, empty, own = 0, 0, 0, dict[int, Any]()
    if shape is not None:
        asked = attrgetter(*_inputs(shape), "id")  # of one field, too, it gives a tuple
        texts = attrgetter(*dict.fromkeys((*shape.needed, *shape.pair)), "id")
        for example, gold in zip(examples, golds, strict=True):
            key = hash(asked(example)[:-1])
            if key in own:
                repeated += 1
                contradictions += bool(own[key] != gold)
            else:
                own[key] = gold
            empty += any(_is_empty(text) for text in texts(example)[:-1])
    lengths, cut = {}, 0.0
    if encoded.ids is not None and len(encoded):
        ordered = encoded.lengths.sort().values
        places = {p: min(-(-p * len(ordered) // 100), len(ordered)) - 1 for p in PERCENTILES}
        lengths = {p: int(ordered[place]) for p, place in places.items()}
        sequences = total * len(encoded.ids) / len(encoded)  # those of a pair read twice count once
        cut = encoded.notes.get("truncated", 0) / max(sequences, 1)
    card = SplitCard(
        examples=total,
        looked_at=len(examples),
        labelled=len(known),
        classes={name: counted.get(name, 0) for name in names},
        empty=empty,
        repeated=repeated,
        contradictions=contradictions,
        also_in={split: len(own.keys() & keys) for split, keys in earlier.items()},
        lengths=lengths,
        cut=cut,
    )
    return card, set(own)


def _inputs(shape: type[Example]) -> list[str]:
    """The fields that make an example the one it is."""
    fields = (*shape.needed, *shape.optional)
    return [name for name in fields if name not in (*shape.targets, *_NO_INPUT)]


def _is_empty(text: Any) -> bool:
    return text is not None and not (text.strip() if isinstance(text, str) else text)
