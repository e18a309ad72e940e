"""What training and evaluation data have in common: contexts or sentences that occur in both."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

SAMPLES = 3
ID = 16  # the length from which on an id tells more than the number of a row


@dataclass(frozen=True)
class Overlap:
    """Counted in texts of the evaluation set; `normalised` ignores case, width, space, punctuation.

    same_ids: examples that have the id of a training example, as translations of one question do.
    examples: of the evaluation set.
    """

    train: str
    evaluation: str
    exact: int
    normalised: int
    total: int
    samples: tuple[str, ...] = ()
    same_ids: int = 0
    examples: int = 0

    @property
    def share(self) -> float:
        """Of the evaluation set's texts that also stand in the training set."""
        return self.normalised / self.total if self.total else 0.0

    def __bool__(self) -> bool:
        return self.normalised > 0 or self.same_ids > 0

    def __str__(self) -> str:
        found = (
            f"{self.normalised:,} of {self.total:,} texts of {self.evaluation} ({self.share:.1%}) also "
            f"stand in {self.train}, {self.exact:,} of them letter by letter"
        )
        if self.same_ids:
            found += (
                f", and {self.same_ids:,} of its {self.examples:,} examples have the id of one there, "
                "as copies and translations do"
            )
        sample = f', such as "{_shortened(self.samples[0])}"' if self.samples else ""
        return f"Overlap: {found}{sample}."


def overlap(
    train: Sequence[Any], evaluation: Sequence[Any], *, train_name: str, evaluation_name: str
) -> Overlap:
    """Compare what examples are about: the context of a question, a sentence, a pair, a passage.

    A question's context counts, not its words: another question about a text that was trained on is
    still about a text that was trained on. Time and memory are linear in the texts.
    """
    return _compare(train_name, _Known.of(train), evaluation_name, _Known.of(evaluation))


def overlaps(
    train: Iterable[tuple[str, Sequence[Any]]], evaluation: Iterable[tuple[str, Sequence[Any]]]
) -> Iterator[Overlap]:
    """Those that are not empty, of every training set with every evaluation set, each read once."""
    others = [(name, _Known.of(examples)) for name, examples in evaluation]
    for name, examples in train:
        there = _Known.of(examples)
        for other, here in others:
            found = _compare(name, there, other, here)
            if found:
                yield found


@dataclass(frozen=True)
class _Known:
    """What is compared of a set of examples."""

    texts: dict[str, str]  # each text, in order, and what it is normalised
    normal: frozenset[str]
    ids: frozenset[str]
    examples: int

    @classmethod
    def of(cls, examples: Sequence[Any]) -> _Known:
        texts = {text: normalised(text) for text in dict.fromkeys(e.leak_key for e in examples) if text}
        ids = (str(example.id) for example in examples)
        return cls(
            texts=texts,
            normal=frozenset(texts.values()) - {""},
            ids=frozenset(id for id in ids if len(id) >= ID),
            examples=len(examples),
        )


def _compare(train: str, there: _Known, evaluation: str, here: _Known) -> Overlap:
    same = [text for text, normal in here.texts.items() if normal in there.normal]
    return Overlap(
        train=train,
        evaluation=evaluation,
        exact=sum(text in there.texts for text in same),
        normalised=len(same),
        total=len(here.texts),
        samples=tuple(same[:SAMPLES]),
        same_ids=len(here.ids & there.ids),
        examples=here.examples,
    )


def normalised(text: str) -> str:
    """Without case, width, accents' composition, punctuation, symbols and space.

    Marks stay: in the scripts of India and in Thai they are vowels.
    """
    return unicodedata.normalize("NFKC", text).casefold().translate(_not_letters())


@lru_cache(maxsize=1)
def _not_letters() -> dict[int, None]:
    points = (i for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i))[0] in "PSZC")
    # Unassigned and private code points are kept: nothing is known of them.
    return dict.fromkeys(i for i in points if unicodedata.category(chr(i)) not in ("Cn", "Co", "Cs"))


def _shortened(text: str, most: int = 60) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"
