"""The base class of all kinds of task: everything that the rest of the library asks of a kind."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import nn

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.data.examples import EXAMPLES
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk

E = TypeVar("E")  # the kind's example, of `gradaccord.data.examples`

Output = torch.Tensor | dict[str, torch.Tensor]


@dataclass(frozen=True)
class StartingFile:
    """What `gradaccord init KIND` writes that differs from kind to kind.

    ending: of own files; "" if only known data sets can be read.
    lines: of the task, after its files; of `tasks` as a whole where there are no files.
    """

    ending: str
    lines: tuple[str, ...]
    model: str = (
        "minilm                  # or the folder of a Hugging Face model; `characters` for the names"
    )


class Task(ABC, Generic[E]):
    """Base class. A kind of task is one subclass in one file, and one line in `tasks/registry.py`.

    A task is a frozen dataclass of its options; it holds no weights and no data.

        encoded = task.encode(dataset.split("train"), tokens)
        model = MultiTaskModel(trunk, {"sst": task.new_head(trunk)})
        batch = encoded.batch([0, 1, 2])
        loss, items = task.loss(model("sst", batch), batch)        # as a method's callable returns it
        rows = task.read(model, "sst", batch)                      # one entry per row
        predictions = task.decode(examples, encoded, rows)         # one per example, ready for JSON
        scores = task.score(examples, predictions)                 # in percent

    `tasks.evaluation.evaluate` runs the last three over a whole split. These and `gold` are all that a
    kind must define; the rest has a default. The columns of its files are the fields of its example
    class (`gradaccord.data.examples`), which names the kind.
    """

    kind: ClassVar[str]
    metric: str  # the score by which models are chosen; an option of kinds that have several
    lower_is_better: ClassVar[frozenset[str]] = frozenset()  # scores of which that is so
    divergence: ClassVar[str | None] = None  # how SMART compares outputs; None: not regularised
    graded: ClassVar[bool] = False  # whether a prediction can be right in part, by its score
    generates: ClassVar[bool] = False  # whether predictions are texts written by a decoder
    max_length: int | None = None  # tokens of a sequence; None: the kind has no such option
    # Options that the weights of a head were trained with.
    head_options: ClassVar[frozenset[str]] = frozenset({"labels", "pair", "head", "dropout"})
    in_blocks: ClassVar[bool] = True  # whether an example is encoded alike whatever stands before it
    starting_file: ClassVar[StartingFile | None] = None  # None: JSON lines with the example's fields
    sample_question: ClassVar[Any] = "some text"  # one to try a trained model with

    @abstractmethod
    def encode(self, examples: Sequence[E], tokens: Tokens) -> Encoded:
        """Tokenise; what was cut or lost is counted in the result's `notes`."""

    @abstractmethod
    def new_head(self, trunk: Trunk) -> nn.Module:
        """A head with fresh weights, called as head(trunk, batch)."""

    @abstractmethod
    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        """The mean loss, and the number of items it is the mean of."""

    @abstractmethod
    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Any]:
        """What decoding needs to know of each row of the batch; called without gradients."""

    @abstractmethod
    def decode(self, examples: Sequence[E], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        """A prediction for each example, ready for JSON."""

    @abstractmethod
    def gold(self, example: E) -> Any:
        """What a perfect prediction for the example would be; None if it is not labelled."""

    @abstractmethod
    def score(self, examples: Sequence[E], predictions: Sequence[Any]) -> dict[str, float]:
        """The kind's metrics in percent, `metric` among them; no example at all is an error."""

    @property
    def main_metric(self) -> str:
        """`metric`, with a "-" before it if lower is better: a higher main score is always better."""
        return f"-{self.metric}" if self.metric in self.lower_is_better else self.metric

    def labelled(
        self, examples: Sequence[E], predictions: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Truth and prediction of every labelled example, in order: what `score` compares."""
        if not len(examples):
            raise ValueError(f"There is no example to score a {self.kind} task on.")
        if len(predictions) != len(examples):
            raise ValueError(
                f"There are {len(predictions)} predictions for {len(examples)} examples: give one each."
            )
        pairs = [(self.gold(e), p) for e, p in zip(examples, predictions, strict=True)]
        pairs = [(gold, prediction) for gold, prediction in pairs if gold is not None]
        if not pairs:
            raise ValueError(f"None of the {len(examples)} examples is labelled: score another split.")
        gold, predicted = zip(*pairs, strict=True)
        return list(gold), list(predicted)

    # What a model without skill scores (`tasks.references`)

    def chance(self, examples: Sequence[E], predictions: Sequence[Any]) -> dict[str, float]:
        """What guessing scores in percent, `metric` among it; here the truth in random order.

        predictions: of a model, for kinds whose truth is only known there.
        """
        gold, _ = self.labelled(examples, predictions)
        drawn = iter(random.Random(0).sample(gold, len(gold)))
        guesses = zip(examples, predictions, strict=True)
        return self.score(examples, [p if self.gold(e) is None else next(drawn) for e, p in guesses])

    def constant(self, examples: Sequence[E], predictions: Sequence[Any]) -> list[Any]:
        """Predictions that are the same for all examples; here the most common truth."""
        gold, _ = self.labelled(examples, predictions)
        common = Counter(map(repr, gold)).most_common(1)[0][0]
        return [next(truth for truth in gold if repr(truth) == common)] * len(examples)

    def standard_error(self, score: float, count: int) -> float:
        """The main metric's standard error over `count` examples, in percent; here that of a share."""
        share = min(max(score / 100, 0.0), 1.0)
        return 100 * math.sqrt(share * (1 - share) / count)

    def predicts_one_class(self, examples: Sequence[E], predictions: Sequence[Any]) -> bool:
        """Whether all predictions are one class, though the truth is not."""
        gold, predicted = self.labelled(examples, predictions)
        if not self.class_names:
            return False
        pairs = {p for pair in zip(gold, predicted, strict=True) for p in self.class_pairs(*pair)}
        return len({truth for truth, _ in pairs}) > 1 and len({said for _, said in pairs}) == 1

    @classmethod
    def start(cls) -> StartingFile:
        """The kind's part of a configuration to start from."""
        if cls.starting_file is not None:
            return cls.starting_file
        example = EXAMPLES[cls.kind]
        fields = ", ".join([*example.needed, *example.targets[:1]])
        return StartingFile("jsonl", (f"# each line: {fields}",))

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes or entity types that the task was made with; empty: its kind has none."""
        return tuple(getattr(self, "labels", ()))

    def counted(self, batch: Batch) -> torch.Tensor | None:
        """The outputs that a regulariser compares; None: all that are not padding."""
        return None

    # Another task's head

    def takes_labels(self, labels: Sequence[str]) -> bool:
        """Whether this task's head can be used for a data set with these labels."""
        return not labels or not self.label_names or tuple(labels) == self.label_names

    # Errors (`tasks.error_analysis`)

    def is_right(self, example: E, gold: Any, predicted: Any) -> bool:
        """Whether a prediction is wholly right."""
        if self.graded:
            return self.score([example], [predicted])[self.metric] >= 100 - 1e-9
        return bool(gold == predicted)

    def error(self, example: E, gold: Any, predicted: Any, row: Any) -> float | None:
        """How far off a wrong prediction is, if that is known. row: what `read` gave, or None."""
        return 100 - self.score([example], [predicted])[self.metric] if self.graded else None

    def signed_error(self, gold: Any, predicted: Any) -> float | None:
        """Prediction minus truth, of kinds that predict a number."""
        return None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The rows and columns of a table of confusions; empty: there is none."""
        return self.label_names

    def class_pairs(self, gold: Any, predicted: Any) -> list[tuple[str, str]]:
        """What one prediction adds to that table: true and predicted classes."""
        return [(gold, predicted)]

    def scores_of_counts(self, counts: torch.Tensor) -> dict[str, torch.Tensor]:
        """Metrics in percent from tables of confusions [n, classes, classes]; {}: not possible."""
        return {}

    # Questions to a trained model (`train.predict`, `train.export`)

    def probabilities(self, rows: Sequence[Any]) -> list[dict[str, float]] | None:
        """The probability of each class, for each row of `read`; None for kinds without classes."""
        return None

    def question_fields(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The fields that a question must have, and those that it may have."""
        example = EXAMPLES[self.kind]
        return example.needed, tuple(f for f in example.optional if f not in example.targets)

    def checked_question(self, given: Any, where: str) -> E:
        """The question unchanged, for kinds whose questions have no fields. where: how errors begin."""
        raise NotImplementedError

    def sample_code(self, trunk: Mapping[str, Any]) -> tuple[str, list[str]]:
        """A question as Python code, and the imports it needs. trunk: the model's `config.json`."""
        return repr(self.sample_question), []


def main_score(scores: Mapping[str, float], main_metric: str) -> float:
    """The score that models are compared by, higher is better: -12.3 for a perplexity of 12.3."""
    if main_metric in scores:
        return scores[main_metric]
    return -scores[main_metric.removeprefix("-")]


@contextmanager
def errors_named(task: str) -> Iterator[None]:
    """A block in which errors are given the task's name as their beginning, once."""
    try:
        yield
    except (ValueError, TypeError) as error:
        sentence = str(error)
        if not sentence.startswith(f"Task {task!r}"):
            sentence = f"Task {task!r}: {sentence}"
        raise ValueError(sentence) from error
