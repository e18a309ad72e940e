"""A tag for every word (named entities): words in pieces, IOB2, seqeval's F1."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.data.encoded import IGNORED, Batch, Encoded, Ragged
from gradaccord.data.examples import Tagged
from gradaccord.models.heads import TokenHead
from gradaccord.models.tokens import Encoding, Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.task import Output, StartingFile, Task

OUTSIDE = "O"
_BLOCK = 2000  # sentences tokenised at once


@dataclass(frozen=True)
class Tagging(Task[Tagged]):
    """An IOB2 tag for each word, read at its first piece (Devlin et al. 2019).

    A sentence longer than `max_length` goes on in further windows, without overlap: every word keeps
    its tag. Scores are seqeval's, over entities of all types together (micro), strict IOB2.

    labels: the entity types, such as PER, LOC, ORG.
    decoding: "greedy" takes each word's best tag, as published; "constrained" the best sequence that
        IOB2 allows.
    """

    labels: tuple[str, ...]
    max_length: int = 128
    decoding: Literal["greedy", "constrained"] = "greedy"
    dropout: float | None = None
    metric: Literal["f1", "precision", "recall"] = field(default="f1", repr=False)

    kind = "tagging"
    divergence = "tokens"
    starting_file = StartingFile(
        "conll", ("# a word and its IOB2 tag a line, an empty line between sentences",)
    )

    def __post_init__(self) -> None:
        if not self.labels:
            raise ValueError("`labels` is empty: name the entity types, such as PER, LOC, ORG.")
        if self.decoding not in ("greedy", "constrained"):
            raise ValueError(f"`decoding` is {self.decoding!r}: use 'greedy' or 'constrained'.")

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags in the order of their numbers."""
        return tag_names(self.labels)

    def encode(self, examples: Sequence[Tagged], tokens: Tokens) -> Encoded:
        number = {tag: place for place, tag in enumerate(self.tags)}
        length = min(self.max_length, tokens.max_length)
        ids, types, tags, words, example = [], [], [], [], []
        notes = {"sentences in several windows": 0, "words without a piece": 0, "not labelled": 0}
        for start in range(0, len(examples), _BLOCK):
            block = examples[start : start + _BLOCK]
            for one in block:
                self._check(one)
            encodings = tokens.encode_words([one.words for one in block], max_length=length)
            for place, (one, encoding) in enumerate(zip(block, encodings, strict=True), start):
                windows = (encoding, *encoding.overflowing)
                found = first_pieces(windows)
                labels = [number[tag] for tag in one.tags] or [IGNORED] * len(one.words)
                ids += [window.ids for window in windows]
                types += [window.type_ids for window in windows]
                words += found
                tags += [[labels[word] if word >= 0 else IGNORED for word in row] for row in found]
                example += [place] * len(windows)
                seen = sum(word >= 0 for row in found for word in row)
                notes["sentences in several windows"] += len(windows) > 1
                notes["words without a piece"] += len(one.words) - seen
                notes["not labelled"] += not one.tags
        return Encoded(
            ids=Ragged.of(ids),
            types=Ragged.of(types) if tokens.has_types else None,
            first=torch.arange(len(ids) + 1, device="cpu"),
            example=torch.tensor(example, dtype=torch.int64, device="cpu"),
            tokens={"tags": Ragged.of(tags)},
            aside={"words": Ragged.of(words)},
            notes=notes,
            pad=tokens.pad,
        )

    def _check(self, example: Tagged) -> None:
        where = f"Example {example.id!r}"
        if not example.words:
            raise ValueError(f"{where} has no words: leave it out.")
        if example.tags and len(example.tags) != len(example.words):
            raise ValueError(
                f"{where} has {len(example.tags)} tags for {len(example.words)} words: give one each."
            )
        check_tags(example.tags, self.tags, where)

    def new_head(self, trunk: Trunk) -> nn.Module:
        dropout = trunk.dropout if self.dropout is None else self.dropout
        return TokenHead(trunk.hidden, len(self.tags), dropout=dropout)

    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        assert isinstance(output, torch.Tensor)
        items = int((batch["tags"] != IGNORED).sum())
        total = cross_entropy(
            output.float().flatten(0, 1), batch["tags"].flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return total / max(items, 1), items

    def counted(self, batch: Batch) -> torch.Tensor:
        """The tokens that have a tag."""
        return batch["tags"] >= 0

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[torch.Tensor]:
        """[tokens, tags] log-probabilities of each window."""
        logits: torch.Tensor = model(name, batch)
        lengths = batch["attention_mask"].sum(1).tolist()
        scores = logits.float().log_softmax(-1).cpu()
        # Copies: a view would keep the batch's padding in memory.
        return [row[:length].clone() for row, length in zip(scores, lengths, strict=True)]

    def decode(self, examples: Sequence[Tagged], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        if len(rows) != len(encoded):
            raise ValueError(
                f"There are {len(rows)} rows of scores for {len(encoded)} windows: give one each."
            )
        predictions = [[OUTSIDE] * len(example.words) for example in examples]
        if not rows:
            return predictions
        words = encoded.aside["words"]
        at_first = words.flat >= 0
        scores = torch.cat(list(rows))[at_first]
        word = words.flat[at_first].tolist()
        row = torch.repeat_interleave(torch.arange(len(rows), device="cpu"), words.lengths)[at_first]
        owner = encoded.example[row]
        chosen = self._chosen(scores, owner)
        for place, position, tag in zip(owner.tolist(), word, chosen, strict=True):
            predictions[place][position] = self.tags[tag]
        return predictions

    def _chosen(self, scores: torch.Tensor, owner: torch.Tensor) -> list[int]:
        if self.decoding == "greedy":
            return scores.argmax(-1).tolist()
        changes = (owner.diff() != 0).nonzero().flatten() + 1
        bounds = [0, *changes.tolist(), len(owner)]
        sentences = (scores[start:end] for start, end in pairwise(bounds) if end > start)
        return [tag for sentence in sentences for tag in best_sequence(sentence, self.tags)]

    def gold(self, example: Tagged) -> list[str] | None:
        return list(example.tags) or None

    def score(self, examples: Sequence[Tagged], predictions: Sequence[Any]) -> dict[str, float]:
        from seqeval.metrics.v1 import precision_recall_fscore_support
        from seqeval.scheme import IOB2

        gold, predicted = self.labelled(examples, predictions)
        known = set(self.tags)
        for one, tags in zip((e for e in examples if e.tags), predicted, strict=True):
            if not isinstance(tags, list | tuple) or len(tags) != len(one.words) or set(tags) - known:
                raise ValueError(
                    f"The prediction of example {one.id!r} is {str(tags)[:80]}: give a tag of "
                    f"{', '.join(self.tags)} for each of its {len(one.words)} words."
                )
        precision, recall, f1, _ = precision_recall_fscore_support(
            gold, [list(tags) for tags in predicted], average="micro", scheme=IOB2, zero_division=0
        )
        return {
            "f1": 100 * float(f1),
            "precision": 100 * float(precision),
            "recall": 100 * float(recall),
        }

    def chance(self, examples: Sequence[Tagged], predictions: Sequence[Any]) -> dict[str, float]:
        """Scores of tags drawn at random, word by word."""
        draw = random.Random(0)
        return self.score(examples, [draw.choices(self.tags, k=len(e.words)) for e in examples])

    def constant(self, examples: Sequence[Tagged], predictions: Sequence[Any]) -> list[Any]:
        """No entity anywhere."""
        return [[OUTSIDE] * len(example.words) for example in examples]

    def takes_labels(self, labels: Sequence[str]) -> bool:
        """Tags are compared by name, and a type that does not occur does no harm."""
        return set(labels) <= set(self.labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        return OUTSIDE, *self.labels

    def class_pairs(self, gold: Any, predicted: Any) -> list[tuple[str, str]]:
        return [(_type(g), _type(p)) for g, p in zip(gold, predicted, strict=True)]


def _type(tag: str) -> str:
    return tag.partition("-")[2] or OUTSIDE


def first_pieces(windows: Sequence[Encoding]) -> list[list[int]]:
    """For each token of a sentence's windows the word that begins with it, or -1.

    A word may go on in the next window; its tag stays with its first piece.
    """
    reached = -1
    found = []
    for window in windows:
        row = []
        for word in window.word_ids:
            begins = word is not None and word > reached
            if word is not None and begins:
                reached = word
            row.append(reached if begins else -1)
        found.append(row)
    return found


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
