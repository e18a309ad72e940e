"""What a kind of task has to say: how it is encoded, its head, loss, decoding and metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import nn

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk

E = TypeVar("E")  # the kind's example, of `gradaccord.data.examples`

Output = torch.Tensor | dict[str, torch.Tensor]


class Task(ABC, Generic[E]):
    """Base class. A task is a frozen dataclass of its options; it holds no weights and no data.

        encoded = task.encode(dataset.split("train"), tokens)
        model = MultiTaskModel(trunk, {"sst": task.new_head(trunk)})
        batch = encoded.batch([0, 1, 2])
        loss, items = task.loss(model("sst", batch), batch)        # as a method's callable returns it
        rows = task.read(model, "sst", batch)                      # one entry a row
        predictions = task.decode(examples, encoded, rows)         # one a example, ready for JSON
        scores = task.score(examples, predictions)                 # in percent

    `tasks.evaluation.evaluate` runs the last three over a whole split.
    """

    kind: ClassVar[str]
    metric: ClassVar[str]  # the score by which models are chosen; higher is better

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
