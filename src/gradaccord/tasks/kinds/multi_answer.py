"""Reading with several right answers (MultiRC): each answer right or wrong, F1a and exact match."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Candidate
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.kinds.class_logits import Binary, binary_labels, f1
from gradaccord.tasks.kinds.sequences import Layers, sequence_head
from gradaccord.tasks.task import StartingFile
from gradaccord.tasks.tokenising import tokenised


@dataclass(frozen=True)
class MultiAnswer(Binary[Candidate]):
    """An example is one answer: passage against question and answer, in one sequence.

    Khashabi et al. 2018. f1a: F1 of "right" over all answers. em: share of the questions whose answers
    are all classified correctly. Answers of one question share their `group` (if none is given, their
    passage and question).
    """

    head: Layers = "linear"
    max_length: int = 512  # 13 % of MultiRC's training rows are longer, with BERT's word pieces
    dropout: float | None = None
    metric: Literal["f1a", "em"] = field(default="f1a", repr=False)

    kind = "multi_answer"
    starting_file = StartingFile(
        "jsonl",
        ("# each line: passage, question, answer, label (true or false), group (of the question)",),
    )
    sample_question = {
        "passage": "Ann lives in Paris.", "question": "Where does Ann live?", "answer": "Paris",
    }  # fmt: skip

    def encode(self, examples: Sequence[Candidate], tokens: Tokens) -> Encoded:
        label = binary_labels(examples)
        found = tokenised(
            tokens,
            [e.passage for e in examples],
            [f"{e.question} {e.answer}" for e in examples],
            max_length=self.max_length,
        )
        return found.encoded(tokens.pad, {"label": label})

    def new_head(self, trunk: Trunk) -> nn.Module:
        return sequence_head(trunk, 2, self.head, self.dropout, pair="cross")

    def score(self, examples: Sequence[Candidate], predictions: Sequence[Any]) -> dict[str, float]:
        gold, predicted = self.answers(examples, predictions)
        right: dict[Any, bool] = defaultdict(lambda: True)
        for question, truth, said in zip(self._questions(examples), gold, predicted, strict=True):
            right[question] &= truth == said
        found = sum(truth and said for truth, said in zip(gold, predicted, strict=True))
        return {
            "f1a": 200 * found / max(sum(gold) + sum(predicted), 1),
            "em": 100 * sum(right.values()) / len(right),
        }

    def chance(self, examples: Sequence[Candidate], predictions: Sequence[Any]) -> dict[str, float]:
        """Half of the right answers are found, among half of the wrong ones."""
        gold, _ = self.answers(examples, predictions)
        answers = Counter(self._questions(examples)).values()
        exact = sum(0.5**count for count in answers) / len(answers)
        return {"f1a": 100 * f1(sum(gold) / len(gold), 0.5), "em": 100 * exact}

    def _questions(self, examples: Sequence[Candidate]) -> list[Any]:
        """The question of each labelled answer."""
        return [e.group_key for e in examples if e.label is not None]

    def constant(self, examples: Sequence[Candidate], predictions: Sequence[Any]) -> list[Any]:
        """All answers are right: the other constant has no F1."""
        return [True] * len(examples)
