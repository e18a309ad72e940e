"""Answers that are spans of a context: windows, unanswerable questions, F1 and exact match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.core.checks import one_of, whole_number
from gradaccord.data.encoded import IGNORED, Batch, Encoded
from gradaccord.data.examples import Question
from gradaccord.models.heads import TokenHead
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.qa.scoring import Normalisation, NullThreshold, best_match, best_null_threshold
from gradaccord.tasks.qa.spans import Answer, Spans, best_spans, ranked
from gradaccord.tasks.qa.windows import encode_questions, has_answer
from gradaccord.tasks.qa.word_breaks import Split
from gradaccord.tasks.task import Output, StartingFile, Task


@dataclass(frozen=True)
class QuestionAnswering(Task[Question]):
    """A start and an end token for every question, as Devlin et al. (2019) do.

    Loss: the mean cross-entropy of start and end over a window's tokens; a window without the whole
    answer points to its first token. Prediction: the span with the highest sum of logits over all
    windows. With unanswerable questions, the null odds are the lowest null score of the windows minus
    the best span's score, and an answer is given where they are at most `null_threshold`.

    max_length, stride: tokens of a window, and those that it shares with the one before it.
    max_answer_length: in tokens, of predictions.
    unanswerable: some questions have no answer, as in SQuAD 2, whose rules and metrics apply.
    normalise: "squad" (also XQuAD, TyDiQA, NewsQA, as published) or "mlqa", by language.
    split: "fine" also cuts contexts at punctuation, changes of case, digits and letters without case,
        so that nearly every answer is a span of whole tokens; "tokenizer" leaves words to the
        tokenizer. Either way unknown words are cut into characters.

    Predictions are texts; with unanswerable questions {"answer", "best_answer", "null_odds"}, and
    plain texts are scored too, as in a file of the official format.
    """

    max_length: int = 384
    stride: int = 128
    max_answer_length: int = 30
    n_best: int = 20
    unanswerable: bool = False
    null_threshold: float = 0.0
    normalise: Normalisation = "squad"
    split: Split = "tokenizer"
    dropout: float = 0.0
    metric: Literal["f1", "exact_match"] = field(default="f1", repr=False)

    kind = "question_answering"
    divergence = "span"
    graded = True
    starting_file = StartingFile(
        "json", ("# as SQuAD has it; or jsonl with question, context, answers",)
    )
    sample_question = {"question": "Where does Ann live?", "context": "Ann lives in Paris."}

    def __post_init__(self) -> None:
        for name, least in (("max_length", 16), ("stride", 0), ("max_answer_length", 1), ("n_best", 1)):
            whole_number(name, getattr(self, name), least)
        one_of("normalise", self.normalise, Normalisation)
        one_of("split", self.split, Split)

    def encode(self, examples: Sequence[Question], tokens: Tokens) -> Encoded:
        return encode_questions(
            examples,
            tokens,
            max_length=self.max_length,
            stride=self.stride,
            max_answer_length=self.max_answer_length,
            unanswerable=self.unanswerable,
            split=self.split,
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        return TokenHead(trunk.hidden, 2, dropout=self.dropout)

    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        assert isinstance(output, torch.Tensor)
        items = int((batch["start"] != IGNORED).sum())
        if not items:
            raise ValueError("No question of the batch is labelled: train on another split.")
        padding = (batch["attention_mask"] == 0).unsqueeze(-1)
        # Padding takes no probability, or the loss would depend on the batch's longest window.
        logits = output.float().masked_fill(padding, torch.finfo(torch.float32).min)
        start, end = (
            cross_entropy(logits[..., side], batch[name], ignore_index=IGNORED)
            for side, name in enumerate(("start", "end"))
        )
        return (start + end) / 2, items

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Spans]:
        logits: torch.Tensor = model(name, batch)
        return best_spans(logits, batch["context"], self.max_answer_length, self.n_best)

    def answers(
        self, examples: Sequence[Question], encoded: Encoded, rows: Sequence[Spans]
    ) -> list[list[Answer]]:
        """The `n_best` answers of each example, the best first."""
        return ranked(examples, encoded, rows, self.n_best)[0]

    def decode(self, examples: Sequence[Question], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        answers, nulls = ranked(examples, encoded, rows, 1)
        if not self.unanswerable:
            return [best[0].text if best else "" for best in answers]
        predictions = []
        for best, null in zip(answers, nulls, strict=True):
            text, odds = (best[0].text, null - best[0].score) if best else ("", 0.0)
            predictions.append(
                {
                    "answer": "" if odds > self.null_threshold else text,
                    "best_answer": text,
                    "null_odds": odds,
                }
            )
        return predictions

    def gold(self, example: Question) -> str | None:
        if has_answer(example):
            return next(answer for answer in example.answers if answer.strip())
        return "" if self.unanswerable else None

    def score(self, examples: Sequence[Question], predictions: Sequence[Any]) -> dict[str, float]:
        kept, predicted = self._labelled(examples, predictions)
        texts = [p["answer"] if isinstance(p, dict) else p for p in predicted]
        f1, exact = self._raw(kept, texts)
        if not self.unanswerable:
            return {"f1": _percent(f1), "exact_match": _percent(exact)}
        scores = {"f1": _percent(f1), "exact_match": _percent(exact)}
        answerable = [has_answer(example) for example in kept]
        for name, wanted in (("has_answer", True), ("no_answer", False)):
            chosen = [place for place, has in enumerate(answerable) if has == wanted]
            if chosen:
                scores[f"{name}_f1"] = _percent([f1[place] for place in chosen])
                scores[f"{name}_exact_match"] = _percent([exact[place] for place in chosen])
        if all(isinstance(p, dict) for p in predicted):
            for metric in ("f1", "exact_match"):
                scores[f"best_{metric}"] = self.best_threshold(examples, predictions, metric).score
        return scores

    def chance(self, examples: Sequence[Question], predictions: Sequence[Any]) -> dict[str, float]:
        """0: hardly any of all spans of a context is right."""
        return {"f1": 0.0, "exact_match": 0.0}

    def constant(self, examples: Sequence[Question], predictions: Sequence[Any]) -> list[Any]:
        """No answer: right for questions that have none, where they count."""
        return [""] * len(examples)

    def best_threshold(
        self,
        examples: Sequence[Question],
        predictions: Sequence[dict[str, Any]],
        metric: Literal["f1", "exact_match"] = "f1",
    ) -> NullThreshold:
        """The `null_threshold` under which these predictions score highest (SQuAD 2's procedure).

        Found on the set that it is measured on: choose it on one split, report on another.
        """
        kept, predicted = self._labelled(examples, predictions)
        texts = [p["best_answer"] for p in predicted]
        f1, exact = self._raw(kept, texts)
        return best_null_threshold(
            f1 if metric == "f1" else exact,
            [bool(text) for text in texts],
            [has_answer(example) for example in kept],
            [float(p["null_odds"]) for p in predicted],
        )

    def _labelled(
        self, examples: Sequence[Question], predictions: Sequence[Any]
    ) -> tuple[list[Question], list[Any]]:
        _, predicted = self.labelled(examples, predictions)
        return [example for example in examples if self.gold(example) is not None], predicted

    def _raw(
        self, examples: Sequence[Question], texts: Sequence[Any]
    ) -> tuple[list[float], list[float]]:
        matches = []
        for example, text in zip(examples, texts, strict=True):
            if not isinstance(text, str):
                raise ValueError(
                    f"The prediction of example {example.id!r} is {text!r}: it must be a text, "
                    "empty for no answer."
                )
            matches.append(best_match(text, example, self.normalise, unanswerable=self.unanswerable))
        return [f1 for f1, _ in matches], [exact for _, exact in matches]


def _percent(values: Sequence[float]) -> float:
    return 100 * sum(values) / len(values)
