"""Token sequences of one length: texts one after another, cut wherever a sequence is full.

A sequence begins with the tokenizer's first special token; each text ends with its separator. No token
is lost, and only the last sequence of a language is padded.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.files.growing import Growing
from gradaccord.data.files.tensor_cache import Kept, cached
from gradaccord.data.samplers import ProportionalTasks, TaskBatches
from gradaccord.data.text.masking import Tokens as MaskTokens
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.pretrain.texts import Texts
from gradaccord.tasks.tokenising import BLOCK

LONGEST_WORD = 8  # pieces; of longer ones, as in scripts without spaces, every piece is a word
_FORMAT = 1  # raise it with any change that makes other tokens


@dataclass(frozen=True)
class Packed:
    """The tokens of one language, text after text. begins: which of them begin a word, if needed."""

    language: str
    flat: torch.Tensor  # int32
    begins: torch.Tensor | None  # uint8
    width: int  # tokens of a row: one fewer than in a sequence
    texts: int

    def __len__(self) -> int:
        return math.ceil(len(self.flat) / self.width)

    def __getitem__(self, row: int) -> torch.Tensor:
        return self.flat[row * self.width : (row + 1) * self.width]


def pack(
    texts: Texts, role: int, tokens: HuggingFaceTokens, length: int, words: bool, watch: Watch = NOBODY
) -> Packed:
    """A language's training texts (role 0) or held-out ones (1), tokenised or from the cache."""
    end = tokens.tokenizer.sep_token_id
    if end is None or tokens.tokenizer.cls_token_id is None:
        raise ValueError("The tokenizer has no tokens [CLS] and [SEP], or <s> and </s>: use another.")

    def make() -> Kept:
        flat, begins, count, coming = Growing(), Growing(), 0, texts.of_role(role)
        while block := list(islice(coming, BLOCK)):
            watch.at(f"tokenising {texts.language}", count, len(texts))
            ids, starts = array("i"), array("B")
            for encoding in tokens.pieces(block):
                ids.extend([*encoding.ids, end])
                if words:
                    starts.extend([*_begins(encoding.word_ids), 1])
            flat.add(torch.frombuffer(ids, dtype=torch.int32))
            if words:
                begins.add(torch.frombuffer(starts, dtype=torch.uint8))
            count += len(block)
        kept = {"flat": flat.tensor, **({"begins": begins.tensor} if words else {})}
        return kept, {"texts": str(count)}

    known = f"{_FORMAT} {texts.identity} {role} {tokens.fingerprint} {words}"
    kept, about = cached("packed", known, make, what=f"tokens of {texts.language}", watch=watch)
    return Packed(texts.language, kept["flat"], kept.get("begins"), length - 1, int(about["texts"]))


def _begins(words: Sequence[int | None]) -> Iterator[int]:
    """Whether each piece begins a word; those of very long words all do."""
    counts: dict[int | None, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    before: int | None = -1
    for word in words:
        yield int(word is None or word != before or counts[word] > LONGEST_WORD)
        before = word


class PackedRows:
    """Which rows come next: languages drawn by p ~ N^balance, each one's rows shuffled on every pass.

    The same on every process, and resumed exactly.
    """

    def __init__(self, packed: Sequence[Packed], balance: float, seed: int) -> None:
        sizes = {own.language: len(own.flat) for own in packed}
        self.sampler = ProportionalTasks(sizes, q=balance, seed=seed)
        self.passes = {
            own.language: TaskBatches(range(len(own)), 1, seed=seed + 7919 * (i + 1))
            for i, own in enumerate(packed)
        }
        self.places = {own.language: i for i, own in enumerate(packed)}

    def draw(self, count: int) -> list[tuple[int, int]]:
        """The next rows, each as the number of its language and its number in it."""
        drawn = (next(self.sampler)[0] for _ in range(count))
        return [(self.places[language], next(self.passes[language])[0]) for language in drawn]

    def state_dict(self) -> dict[str, object]:
        """The positions in the languages and in their rows."""
        passes = {language: own.state_dict() for language, own in self.passes.items()}
        return {"sampler": self.sampler.state_dict(), "passes": passes}

    def load_state_dict(self, state: dict[str, dict[str, dict[str, object]]]) -> None:
        """Continue from saved positions."""
        self.sampler.load_state_dict(state["sampler"])
        for language, own in self.passes.items():
            own.load_state_dict(state["passes"][language])


def unigram_loss(train: Packed, held_out: Packed, known: MaskTokens) -> float:
    """Mean -log p of held-out tokens by their frequency in training: a model must get below it."""
    counts = torch.bincount(train.flat.long(), minlength=known.size).double() + 1
    special = torch.tensor(known.special, device="cpu")
    counts[special] = 0
    tokens = held_out.flat.long()
    tokens = tokens[~torch.isin(tokens, special)]
    return float(-(counts / counts.sum()).log()[tokens].mean())
