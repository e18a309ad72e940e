"""One right choice of several (COPA, XCOPA): a sequence per choice, cross-entropy, accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.data.examples import Choices
from gradaccord.models.heads import layers
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.kinds.class_logits import ClassLogits, share_of_equals
from gradaccord.tasks.kinds.sequences import Layers, layer_sizes
from gradaccord.tasks.task import StartingFile
from gradaccord.tasks.tokenising import tokenised

# What stands between premise and choice: COPA's own questions, and the words for "because" and
# "therefore" in the languages of XCOPA.
QUESTIONS: Mapping[str, tuple[str, str]] = {
    "en": ("What was the cause of this?", "What happened as a result?"),
    "et": ("sest", "seetõttu"),
    "ht": ("poukisa", "donk sa"),
    "id": ("karena", "maka"),
    "it": ("perché", "quindi"),
    "qu": ("imataq", "chaymi"),
    "sw": ("kwa sababu", "kwa hiyo"),
    "ta": ("காரணமாக", "எனவே"),
    "th": ("เพราะ", "ดังนั้น"),
    "tr": ("çünkü", "bu yüzden"),
    "vi": ("bởi vì", "vì vậy"),
    "zh": ("因为", "所以"),
}

# The logit of a choice that a row does not have. Not -inf: the difference of two is taken by
# regularisers that compare logits.
ABSENT = -1e4


@dataclass(frozen=True)
class MultipleChoice(ClassLogits[Choices]):
    """Premise and question against each choice: one sequence and one score each, the highest wins.

    language: in which the questions "cause" and "effect" are put into words; any other question is
        used as it is.
    cause, effect: your own words for the two.
    """

    language: str = "en"
    cause: str = ""
    effect: str = ""
    head: Layers = "linear"
    max_length: int = 128
    dropout: float | None = None
    metric: Literal["accuracy"] = field(default="accuracy", repr=False)

    kind = "multiple_choice"
    starting_file = StartingFile(
        "csv",
        ('columns: {premise: premise, question: question, choices: "choice1,choice2", label: label}',),
    )
    sample_question = {
        "premise": "It rained.",
        "question": "effect",
        "choices": ["The street got wet.", "The street dried."],
    }

    def __post_init__(self) -> None:
        if self.language not in QUESTIONS and not (self.cause and self.effect):
            raise ValueError(
                f"`language` is {self.language!r}: use one of {', '.join(QUESTIONS)}, or give the "
                "words for `cause` and `effect`."
            )

    def question(self, example: Choices) -> str:
        """An example's question in the task's words."""
        cause, effect = QUESTIONS.get(self.language, ("", ""))
        words = {"cause": self.cause or cause, "effect": self.effect or effect}
        return words.get(example.question, example.question)

    def encode(self, examples: Sequence[Choices], tokens: Tokens) -> Encoded:
        for e in examples:
            if not e.choices:
                raise ValueError(f"Example {e.id!r} has no choices: give at least one.")
            if e.label is not None and not 0 <= e.label < len(e.choices):
                raise ValueError(
                    f"Example {e.id!r} has the label {e.label}: it must be one of "
                    f"0..{len(e.choices) - 1}, the number of a choice."
                )
        found = tokenised(
            tokens,
            [f"{e.premise} {self.question(e)}".strip() for e in examples for _ in e.choices],
            [choice for e in examples for choice in e.choices],
            max_length=self.max_length,
        )
        labels = [-1 if e.label is None else e.label for e in examples]
        first = torch.tensor([0, *(len(e.choices) for e in examples)], device="cpu").cumsum(0)
        return found.encoded(tokens.pad, {"label": torch.tensor(labels, device="cpu")}, first=first)

    def new_head(self, trunk: Trunk) -> nn.Module:
        return ChoiceHead(
            trunk.hidden,
            layer_sizes=layer_sizes(self.head, trunk.hidden, pair=True),
            dropout=trunk.dropout if self.dropout is None else self.dropout,
        )

    def decode(self, examples: Sequence[Choices], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return [int(logits.argmax()) for logits in rows]

    def gold(self, example: Choices) -> int | None:
        return example.label

    def score(self, examples: Sequence[Choices], predictions: Sequence[Any]) -> dict[str, float]:
        gold, predicted = self.labelled(examples, predictions)
        for prediction in predicted:
            if isinstance(prediction, bool) or not isinstance(prediction, int):
                raise ValueError(f"A prediction is {prediction!r}: it must be the number of a choice.")
        return {"accuracy": 100 * share_of_equals(gold, predicted)}

    def chance(self, examples: Sequence[Choices], predictions: Sequence[Any]) -> dict[str, float]:
        known = [1 / len(e.choices) for e in examples if e.label is not None]
        return {"accuracy": 100 * sum(known) / len(known)}

    def predicts_one_class(self, examples: Sequence[Choices], predictions: Sequence[Any]) -> bool:
        """Whether the choice at the same place is always predicted."""
        gold, predicted = self.labelled(examples, predictions)
        return len(set(gold)) > 1 and len(set(predicted)) == 1


class ChoiceHead(nn.Module):
    """A score for each sequence, gathered into a row of scores for each example."""

    def __init__(self, hidden: int, *, layer_sizes: Sequence[int] = (), dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = layers(hidden, 1, layer_sizes, dropout)

    def forward(self, trunk: Trunk, batch: Batch) -> torch.Tensor:
        """[rows, most choices of a row]."""
        scores: torch.Tensor = self.layers(trunk(batch).pooled).squeeze(-1)
        if "row" not in batch:  # one choice each
            return scores.unsqueeze(-1)
        row = batch["row"]
        counts = row.bincount()
        place = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
        grid = scores.new_full((len(counts), int(counts.max())), ABSENT)
        return grid.index_put((row, place), scores)
