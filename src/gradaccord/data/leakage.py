"""What training and evaluation data have in common: contexts or sentences that occur in both."""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.files.tensor_cache import Kept, cached
from gradaccord.data.stored import Stored

_FORMAT = 1  # to be raised when other texts count as the same
SAMPLES = 3
_BLOCK = 4096  # training examples compared at once
_SENTENCE_END = re.compile(r"\n|(?<=[.!?…。！？।؟۔])\s*")
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
        """The share of the evaluation set's texts that also occur in the training set."""
        return self.normalised / self.total if self.total else 0.0

    def __bool__(self) -> bool:
        return self.normalised > 0 or self.same_ids > 0

    def __str__(self) -> str:
        found = (
            f"{self.normalised:,} of {self.total:,} texts of {self.evaluation} ({self.share:.1%}) also "
            f"occur in {self.train}, {self.exact:,} of them letter by letter"
        )
        if self.same_ids:
            found += (
                f", and {self.same_ids:,} of its {self.examples:,} examples have the id of one there, "
                "as copies and translations do"
            )
        sample = f', such as "{_shortened(self.samples[0])}"' if self.samples else ""
        return f"Overlap: {found}{sample}."


def overlaps(
    train: Iterable[tuple[str, Sequence[Any]]],
    evaluation: Iterable[tuple[str, Sequence[Any]]],
    watch: Watch = NOBODY,
) -> Iterator[Overlap]:
    """The non-empty overlaps of every training set with every evaluation set; each set is read once.

    What examples are about is compared: the context of a question, a sentence, a pair, a passage. The
    words of a question are not compared: a new question about a text that was trained on overlaps.
    Time is linear in the texts. Memory is a few numbers per evaluation example, since texts are
    compared by their hashes.

    What was found about sets on disk (`stored`) is also kept on disk.
    """
    others = list(evaluation)
    if not others:
        return
    known: dict[str, _Known] = {}
    for name, examples in train:

        def make(name: str = name, examples: Sequence[Any] = examples) -> Kept:
            for other, theirs in others:
                if other not in known:
                    known[other] = _Known(theirs)
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


def hashes_of(texts: Iterable[str]) -> torch.Tensor:
    """64-bit hashes, the same in every process, of texts as they are compared: normalised."""
    return _tensor(array("q", (stable_hash(normalised(text)) for text in texts)))


def stable_hash(text: str) -> int:
    """64 bits, the same in every process."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def texts_and_sentences(examples: Iterable[Any]) -> Iterator[str]:
    """All that a text of another set may repeat: what examples are about, and its sentences."""
    last = ""
    for example in examples:
        for text in dict.fromkeys((example.leak_key, *filter(None, example.texts))):
            if text != last:  # questions about one context follow each other
                yield text
                yield from _SENTENCE_END.split(text)
        last = example.leak_key


class _Hashes:
    """Distinct 64-bit hashes, and which of them were met: 9 bytes each."""

    def __init__(self, hashes: torch.Tensor) -> None:
        ordered = hashes.sort().values
        self.sorted = ordered[_first(ordered)]
        self.met = torch.zeros(len(self.sorted), dtype=torch.bool, device="cpu")

    def meet(self, others: torch.Tensor) -> None:
        """Mark those that are among others."""
        if len(self.sorted) and len(others):
            places = torch.searchsorted(self.sorted, others).clamp_max(len(self.sorted) - 1)
            self.met[places[self.sorted[places] == others]] = True

    def of(self, hashes: torch.Tensor) -> torch.Tensor:
        """Whether each of these, all known, was met."""
        return self.met[torch.searchsorted(self.sorted, hashes)]


class _Known:
    """What training examples are compared with: hashes of the texts and ids of a set for evaluation.

    Of each text: its hash, that of what it is normalised (0: nothing), and where it stands first.
    """

    def __init__(self, examples: Sequence[Any]) -> None:
        self._source = examples
        texts, plain, rows, ids = array("q"), array("q"), array("q"), array("q")
        last = ""
        for row, example in enumerate(examples):
            if len(id := str(example.id)) >= ID:
                ids.append(hash(id))
            text = example.leak_key
            if text and text != last:
                last = text
                texts.append(hash(text))
                plain.append(hash(normalised(text)))
                rows.append(row)
        every = _tensor(texts)
        order = every.argsort(stable=True)
        chosen = order[_first(every[order])]
        self._texts, self._plain, self._rows = (
            every[chosen],
            _tensor(plain)[chosen],
            _tensor(rows)[chosen],
        )
        self.texts, self.ids = _Hashes(self._texts), _Hashes(_tensor(ids))
        self.plain = _Hashes(self._plain[self._plain != 0])

    def start(self) -> None:
        """Forget what was met."""
        for hashes in (self.texts, self.plain, self.ids):
            hashes.met.zero_()

    def counts(self) -> dict[str, Any]:
        """As an `Overlap` has them."""
        told = self._plain != 0  # a text of signs alone tells nothing
        same = told.clone()
        same[told] = self.plain.of(self._plain[told])
        rows = self._rows[same].sort().values[:SAMPLES].tolist()
        return {
            "exact": int((self.texts.of(self._texts) & told).sum()),
            "normalised": int(same.sum()),
            "total": len(self._texts),
            "samples": tuple(self._source[row].leak_key for row in rows),
            "same_ids": int(self.ids.met.sum()),
            "examples": len(self._source),
        }


def _compare(
    name: str, train: Sequence[Any], evaluation: Sequence[_Known], watch: Watch
) -> list[dict[str, Any]]:
    """The counts of each overlap; of the training examples nothing is remembered but what is shared."""
    for here in evaluation:
        here.start()
    last = ""
    coming = iter(watch.each(f"comparing {name} with what is evaluated", train, len(train)))
    while block := list(islice(coming, _BLOCK)):
        ids = _tensor(array("q", (hash(str(example.id)) for example in block)))
        texts, plain = array("q"), array("q")
        for text in (example.leak_key for example in block):
            if text != last:  # questions about one context follow each other
                last = text
                texts.append(hash(text))
                plain.append(hash(normalised(text)))
        for here in evaluation:
            here.ids.meet(ids)
            here.texts.meet(_tensor(texts))
            here.plain.meet(_tensor(plain))
    return [here.counts() for here in evaluation]


def _first(ordered: torch.Tensor) -> torch.Tensor:
    """Whether each is the first of its kind."""
    first = torch.ones(len(ordered), dtype=torch.bool, device="cpu")
    first[1:] = ordered[1:] != ordered[:-1]
    return first


def _tensor(hashes: array[int]) -> torch.Tensor:
    if not hashes:
        return torch.empty(0, dtype=torch.int64, device="cpu")
    return torch.frombuffer(hashes, dtype=torch.int64)


def normalised(text: str) -> str:
    """Without case, width, accents' composition, punctuation, symbols and space.

    Marks stay: in the scripts of India and in Thai they are vowels.
    """
    return unicodedata.normalize("NFKC", text).casefold().translate(_LETTERS)


class _Letters(dict[int, int | None]):
    """What becomes of a code point, found when it first occurs: None, if it is left out."""

    def __missing__(self, point: int) -> int | None:
        kind = unicodedata.category(chr(point))
        # Unassigned and private code points are kept: nothing is known of them.
        kept = kind[0] not in "PSZC" or kind in ("Cn", "Co", "Cs")
        self[point] = point if kept else None
        return self[point]


_LETTERS = _Letters()


def _shortened(text: str, most: int = 60) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"
