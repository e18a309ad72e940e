"""What training and evaluation data have in common: contexts or sentences that occur in both."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradaccord.data import examples as kinds

SAMPLES = 3


@dataclass(frozen=True)
class Overlap:
    """Counted in texts of the evaluation set; `normalised` ignores case, width, space, punctuation."""

    train: str
    evaluation: str
    exact: int
    normalised: int
    total: int
    samples: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of the evaluation set's texts that also stand in the training set."""
        return self.normalised / self.total if self.total else 0.0

    def __bool__(self) -> bool:
        return self.normalised > 0

    def __str__(self) -> str:
        sample = f', such as "{_shortened(self.samples[0])}"' if self.samples else ""
        return (
            f"Overlap: {self.normalised:,} of {self.total:,} texts of {self.evaluation} ({self.share:.1%}) "
            f"also stand in {self.train}, {self.exact:,} of them letter by letter{sample}."
        )


def overlap(
    train: Sequence[Any], evaluation: Sequence[Any], *, train_name: str, evaluation_name: str
) -> Overlap:
    """Compare what examples are about: the context of a question, a sentence, a pair, a passage.

    A question's context counts, not its words: another question about a text that was trained on is
    still about a text that was trained on. Time and memory are linear in the texts.
    """
    there = set(map(text_of, train))
    normal = set(map(normalised, there))
    here = list(dict.fromkeys(map(text_of, evaluation)))
    same = [text for text in here if normalised(text) in normal and normalised(text)]
    return Overlap(
        train=train_name,
        evaluation=evaluation_name,
        exact=sum(text in there for text in same),
        normalised=len(same),
        total=len(here),
        samples=tuple(same[:SAMPLES]),
    )


def overlaps(
    train: Iterable[tuple[str, Sequence[Any]]], evaluation: Iterable[tuple[str, Sequence[Any]]]
) -> Iterator[Overlap]:
    """Those that are not empty, of every training set with every evaluation set."""
    judged = list(evaluation)
    for name, examples in train:
        for other, theirs in judged:
            found = overlap(examples, theirs, train_name=name, evaluation_name=other)
            if found:
                yield found


def text_of(example: Any) -> str:
    """What an example is about, as one text; "" for images."""
    read = _TEXTS.get(type(example))
    return read(example) if read is not None else ""


def normalised(text: str) -> str:
    """Without case, width, accents' composition, punctuation and space."""
    return _NOT_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())


_NOT_WORD = re.compile(r"[\W_]+")

_TEXTS: dict[type, Callable[[Any], str]] = {
    kinds.Text: lambda e: e.first if e.second is None else f"{e.first}\n{e.second}",
    kinds.Choices: lambda e: "\n".join([e.premise, e.question, *e.choices]),
    kinds.Candidate: lambda e: e.passage,
    kinds.Cloze: lambda e: e.passage,
    kinds.WordPair: lambda e: f"{e.first}\n{e.second}",
    kinds.Coreference: lambda e: f"{e.text}\n{e.noun_span}{e.pronoun_span}",
    kinds.Question: lambda e: e.context,
    kinds.Tagged: lambda e: " ".join(e.words),
    kinds.Document: lambda e: e.text,
    kinds.Line: lambda e: e.text,
}


def _shortened(text: str, most: int = 60) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"
