"""What training and evaluation data have in common: contexts or sentences that occur in both."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.files.tensor_cache import Kept, cached
from gradaccord.data.stored import Stored

_FORMAT = 1  # to be raised when other texts count as the same
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
    still about a text that was trained on. Time is linear in the texts, memory in those of evaluation.
    """
    (counts,) = _compare(train_name, train, [_Known.of(evaluation)], NOBODY)
    return Overlap(train_name, evaluation_name, **counts)


def overlaps(
    train: Iterable[tuple[str, Sequence[Any]]],
    evaluation: Iterable[tuple[str, Sequence[Any]]],
    watch: Watch = NOBODY,
) -> Iterator[Overlap]:
    """Those that are not empty, of every training set with every evaluation set, each read once.

    What was found of sets that lie on disk (`stored`) is kept there, too.
    """
    others = list(evaluation)
    if not others:
        return
    known: dict[str, _Known] = {}
    for name, examples in train:

        def make(name: str = name, examples: Sequence[Any] = examples) -> Kept:
            for other, theirs in others:
                if other not in known:
                    known[other] = _Known.of(theirs)
            here = [known[other] for other, _ in others]
            return {}, {"counts": json.dumps(_compare(name, examples, here, watch))}

        sets = [examples, *(theirs for _, theirs in others)]
        if all(isinstance(each, Stored) for each in sets):
            key = " ".join(str(each.identity) for each in sets if isinstance(each, Stored))
            found = cached("overlaps", f"{_FORMAT} {key}", make, what=f"of {name}", watch=watch)[1]
        else:
            found = make()[1]
        for (other, _), counts in zip(others, json.loads(found["counts"]), strict=True):
            one = Overlap(name, other, **{**counts, "samples": tuple(counts["samples"])})
            if one:
                yield one


@dataclass(frozen=True)
class _Known:
    """What training examples are compared with: texts and ids of a set for evaluation."""

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


def _compare(
    name: str, train: Sequence[Any], evaluation: Sequence[_Known], watch: Watch
) -> list[dict[str, Any]]:
    """The counts of each overlap; of the training examples nothing is remembered but what is shared."""
    exact: list[set[str]] = [set() for _ in evaluation]
    normal: list[set[str]] = [set() for _ in evaluation]
    ids: list[set[str]] = [set() for _ in evaluation]
    last = ""
    for example in watch.each(f"comparing {name} with what is evaluated", train, len(train)):
        id, text = str(example.id), example.leak_key
        for here, shared in zip(evaluation, ids, strict=True):
            if id in here.ids:
                shared.add(id)
        if text == last:  # questions about one context follow each other
            continue
        last, plain = text, normalised(text)
        for place, here in enumerate(evaluation):
            if plain in here.normal:
                normal[place].add(plain)
                if text in here.texts:
                    exact[place].add(text)
    found = []
    for here, texts, plains, shared in zip(evaluation, exact, normal, ids, strict=True):
        same = [text for text, plain in here.texts.items() if plain in plains]
        found.append(
            {
                "exact": len(texts),
                "normalised": len(same),
                "total": len(here.texts),
                "samples": tuple(same[:SAMPLES]),
                "same_ids": len(shared),
                "examples": here.examples,
            }
        )
    return found


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
