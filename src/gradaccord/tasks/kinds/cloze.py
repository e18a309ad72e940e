"""A gap that an entity of the passage fills (ReCoRD): each entity scored, token F1 and exact match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from gradaccord.data.encoded import Batch, Encoded
from gradaccord.data.examples import Cloze
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.kinds.class_logits import ClassLogits
from gradaccord.tasks.kinds.sequences import Layers, sequence_head
from gradaccord.tasks.task import StartingFile
from gradaccord.tasks.tokenising import tokenised


@dataclass(frozen=True)
class EntityCloze(ClassLogits[Cloze]):
    """A row for each entity: passage against the query with the gap filled, right or wrong.

    Zhang et al. 2018. The entity with the highest log-odds of "right" is predicted; f1 and em are
    the best over the answers, by SQuAD's normalisation. Entities spelled alike are one row.
    """

    head: Layers = "linear"
    max_length: int = 512
    dropout: float | None = None
    metric: Literal["f1", "em"] = field(default="f1", repr=False)

    kind = "cloze"
    divergence = None
    graded = True
    starting_file = StartingFile(
        "jsonl", ("# each line: passage, query (with @placeholder), entities, answers",)
    )
    sample_question = {
        "passage": "Ann lives in Paris.",
        "query": "@placeholder is a city.",
        "entities": ["Ann", "Paris"],
    }

    def encode(self, examples: Sequence[Cloze], tokens: Tokens) -> Encoded:
        for example in examples:
            _check(example)
        rows = [(n, e, entity) for n, e in enumerate(examples) for entity in _entities(e)]
        found = tokenised(
            tokens,
            [e.passage for _, e, _ in rows],
            [e.query.replace(Cloze.PLACEHOLDER, entity) for _, e, entity in rows],
            max_length=self.max_length,
        )
        labels = [int(entity in e.answers) if e.answers else -1 for _, e, entity in rows]
        lost = sum(bool(e.answers) and not set(e.answers) & set(e.entities) for e in examples)
        return found.encoded(
            tokens.pad,
            {"label": torch.tensor(labels, device="cpu")},
            example=torch.tensor([n for n, _, _ in rows], dtype=torch.int64, device="cpu"),
            notes={"answers not among the entities": lost},
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        return sequence_head(trunk, 2, self.head, self.dropout, pair="cross")

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Any]:
        logits: torch.Tensor = model(name, batch)
        return (logits[:, 1] - logits[:, 0]).float().tolist()

    def decode(self, examples: Sequence[Cloze], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        counts = encoded.example.bincount(minlength=len(examples)).tolist()
        odds = torch.split(torch.tensor(rows, device="cpu"), counts)
        return [_entities(e)[int(of.argmax())] for e, of in zip(examples, odds, strict=True)]

    def gold(self, example: Cloze) -> str | None:
        return example.answers[0] if example.answers else None

    def score(self, examples: Sequence[Cloze], predictions: Sequence[Any]) -> dict[str, float]:
        _, predicted = self.labelled(examples, predictions)
        return best_matches(predicted, [e.answers for e in examples if e.answers])

    def chance(self, examples: Sequence[Cloze], predictions: Sequence[Any]) -> dict[str, float]:
        """The mean over the entities of each passage."""
        known = [e for e in examples if e.answers]
        of = [best_matches(_entities(e), [e.answers] * len(_entities(e))) for e in known]
        return {name: sum(one[name] for one in of) / len(of) for name in ("f1", "em")}

    def constant(self, examples: Sequence[Cloze], predictions: Sequence[Any]) -> list[Any]:
        """The first entity of each passage."""
        return [e.entities[0] for e in examples]


def best_matches(predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1 and exact match in percent, for each prediction against the answer that fits it best."""
    from gradaccord.tasks.qa.scoring import compare, normalised

    f1 = exact = 0.0
    for prediction, right in zip(predictions, answers, strict=True):
        if not isinstance(prediction, str):
            raise ValueError(f"A prediction is {prediction!r}: it must be the text of an entity.")
        words = normalised(prediction, "squad")
        found = [compare(words, normalised(a, "squad"), unanswerable=False) for a in right]
        f1 += max(of for of, _ in found)
        exact += max(equal for _, equal in found)
    return {"f1": 100 * f1 / len(predictions), "em": 100 * exact / len(predictions)}


def _entities(example: Cloze) -> list[str]:
    return list(dict.fromkeys(example.entities))


def _check(example: Cloze) -> None:
    if not example.entities:
        raise ValueError(f"Example {example.id!r} has no entities: give at least one to choose from.")
    if example.query.count(Cloze.PLACEHOLDER) != 1:
        raise ValueError(
            f"Example {example.id!r} has the query {example.query!r}: it must hold "
            f"{Cloze.PLACEHOLDER} once."
        )
