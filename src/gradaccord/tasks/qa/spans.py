"""The best answers of a context: spans of every window, the best of all windows together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Question
from gradaccord.tasks.qa.windows import NULL


class Spans(NamedTuple):
    """A window's best spans of tokens, the best first, and the score of there being no answer."""

    scores: torch.Tensor  # [n] start logit + end logit; -inf where the window has no more spans
    starts: torch.Tensor  # [n] tokens
    ends: torch.Tensor
    null: torch.Tensor  # []


class Answer(NamedTuple):
    """A span of the context."""

    text: str
    score: float
    start: int
    end: int


def best_spans(
    logits: torch.Tensor, context: torch.Tensor, max_answer_length: int, n_best: int
) -> list[Spans]:
    """Each window's best spans start <= end < start + max_answer_length within the context.

    logits: [windows, length, 2]; context: [windows, 2], the first token and the one after the last.
    Exact, not among the best starts and ends alone. Costs windows * length * max_answer_length sums.
    """
    start, end = logits.float().unbind(-1)
    null = (start[:, NULL] + end[:, NULL]).cpu()
    place = torch.arange(start.shape[1], device=logits.device)
    outside = (place < context[:, :1]) | (place >= context[:, 1:])
    start = start.masked_fill(outside, -torch.inf)
    end = pad(end.masked_fill(outside, -torch.inf), (0, max_answer_length - 1), value=-torch.inf)
    scores = (start.unsqueeze(-1) + end.unfold(1, max_answer_length, 1)).flatten(1)
    best, at = scores.topk(min(n_best, scores.shape[1]))
    best, at = best.cpu(), at.cpu()
    begin = at // max_answer_length
    stop = begin + at % max_answer_length
    return [Spans(*row) for row in zip(best, begin, stop, null, strict=True)]


def ranked(
    examples: Sequence[Question], encoded: Encoded, rows: Sequence[Spans], n_best: int
) -> tuple[list[list[Answer]], list[float]]:
    """Each example's best answers over its windows, none twice, and its lowest null score."""
    if len(rows) != len(encoded):
        raise ValueError(
            f"There are {len(rows)} rows of scores for {len(encoded)} windows: give one each."
        )
    answers: list[list[Answer]] = [[] for _ in examples]
    nulls = np.full(len(examples), np.inf)
    if not rows:
        return answers, nulls.tolist()
    example = encoded.example.numpy()
    np.minimum.at(nulls, example, torch.stack([row.null for row in rows]).numpy())
    widths = [len(row.scores) for row in rows]
    scores = torch.cat([row.scores for row in rows]).numpy()
    row = np.repeat(np.arange(len(rows)), widths)[np.isfinite(scores)]
    shift = (encoded.aside["from"].starts[:-1] - encoded.columns["context"][:, 0]).numpy()[row]
    possible = torch.from_numpy(np.isfinite(scores))
    begin = shift + torch.cat([r.starts for r in rows])[possible].numpy()
    stop = shift + torch.cat([r.ends for r in rows])[possible].numpy()
    first = encoded.aside["from"].flat.numpy()[begin]
    last = encoded.aside["to"].flat.numpy()[stop]
    scores, owner = scores[possible.numpy()], example[row]
    seen: set[tuple[int, str]] = set()
    order = np.lexsort((-scores, owner))
    for place, score, start, end in zip(
        owner[order].tolist(), scores[order].tolist(), first[order].tolist(), last[order].tolist(),
        strict=True,
    ):  # fmt: skip
        if len(answers[place]) < n_best:
            text = examples[place].context[start:end].strip()
            if text and (place, text) not in seen:
                seen.add((place, text))
                answers[place].append(Answer(text, score, start, end))
    return answers, nulls.tolist()
