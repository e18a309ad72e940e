"""Sentences and pairs as rows of one sequence, or two for a pair encoded separately; and their head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Text
from gradaccord.models.heads import SequenceHead
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.task import Task
from gradaccord.tasks.tokenising import tokenised

Pair = Literal["cross", "separate"]
Layers = Literal["linear", "hidden"] | tuple[int, ...]


class SentenceOrPair(Task[Text]):
    """Base class of the kinds that read a sentence or, with the option `pair`, two."""

    pair: Pair | None

    def question_fields(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return ("first", "second") if self.pair else ("first",), ("id",)

    def sample_code(self, trunk: Mapping[str, Any]) -> tuple[str, list[str]]:
        pair = {"first": "some text", "second": "some other text"}
        return repr(pair if self.pair else self.sample_question), []


def layer_sizes(head: Layers, hidden: int, *, pair: bool) -> tuple[int, ...]:
    """The hidden layers of a head; "hidden" is H for sentences, H and H // 4 for pairs."""
    if head == "linear":
        return ()
    if head == "hidden":
        return (hidden, hidden // 4) if pair else (hidden,)
    if isinstance(head, str):
        raise ValueError(f"`head` is {head!r}: use 'linear', 'hidden' or a list of layer sizes.")
    return tuple(head)


def sequence_head(
    trunk: Trunk, outputs: int, head: Layers, dropout: float | None, *, pair: Pair | None
) -> SequenceHead:
    """A head on the pooled vector of a row's sentence or pair. dropout: the trunk's if None."""
    return SequenceHead(
        trunk.pooled_width,
        outputs,
        pair=pair == "separate",
        layer_sizes=layer_sizes(head, trunk.pooled_width, pair=pair is not None),
        dropout=trunk.dropout if dropout is None else dropout,
    )


def encode_texts(
    examples: Sequence[Text], tokens: Tokens, pair: Pair | None, max_length: int, label: torch.Tensor
) -> Encoded:
    """Rows of sentences or pairs with a `label` column; truncated rows are counted."""
    _check(examples, pair)
    firsts = [example.first for example in examples]
    seconds = [example.second or "" for example in examples] if pair else None
    if pair == "separate":
        assert seconds is not None
        mixed = [text for two in zip(firsts, seconds, strict=True) for text in two]
        found = tokenised(tokens, mixed, max_length=max_length)
    else:
        found = tokenised(tokens, firsts, seconds, max_length=max_length)
    step = 2 if pair == "separate" else 1
    first = torch.arange(0, step * len(examples) + 1, step, device="cpu")
    return found.encoded(tokens.pad, {"label": label}, first=first)


def _check(examples: Sequence[Text], pair: Pair | None) -> None:
    for example in examples:
        if example.second is None and pair is not None:
            raise ValueError(
                f"Example {example.id!r} is a single sentence and `pair` is {pair!r}: set it to None."
            )
        if example.second is not None and pair is None:
            raise ValueError(
                f"Example {example.id!r} is a pair and `pair` is None: set it to 'cross' or 'separate'."
            )
