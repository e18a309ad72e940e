"""A task together with its data, tokenised: from the cache on disk if it was before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from gradaccord.data.dataset import Dataset
from gradaccord.data.encoded import Encoded
from gradaccord.data.files.tensor_cache import cached
from gradaccord.models.tokens import Tokens
from gradaccord.tasks.task import Task, errors_named

_FORMAT = 2  # to be raised when an encoding changes


@dataclass(frozen=True)
class Prepared:
    """What training and evaluation need of one task."""

    name: str
    task: Task[Any]
    splits: Mapping[str, Sequence[Any]]
    encoded: Mapping[str, Encoded]

    @property
    def notes(self) -> dict[str, dict[str, int]]:
        """What was cut or lost, by split; splits of which nothing was are left out."""
        counted = {s: {k: v for k, v in e.notes.items() if v} for s, e in self.encoded.items()}
        return {split: notes for split, notes in counted.items() if notes}

    def labelled(self, split: str) -> bool:
        """Whether any example of a split has an answer to be judged by."""
        examples = self.splits.get(split, ())
        return any(self.task.gold(example) is not None for example in examples)


def prepare(name: str, task: Task[Any], dataset: Dataset, tokens: Tokens) -> Prepared:
    """Tokenise every split, or read it from the cache (`gradaccord.data.files.tensor_cache`).

    Examples without a label are left out of the train split, and counted.
    """
    splits = dict(dataset.splits)
    with errors_named(name):
        if "train" in splits:
            splits["train"] = _labelled(task, splits["train"])
        encoded = {split: encode(task, examples, tokens) for split, examples in splits.items()}
    left_out = {split: len(dataset.splits[split]) - len(examples) for split, examples in splits.items()}
    for split, count in left_out.items():
        if count:
            notes = {**encoded[split].notes, "left out, without a label": count}
            encoded[split] = dataclasses.replace(encoded[split], notes=notes)
    return Prepared(name, task, splits, encoded)


def _labelled(task: Task[Any], examples: Sequence[Any]) -> Sequence[Any]:
    """Those that a loss can be computed of."""
    if not _are_texts(examples):
        return examples
    kept = [example for example in examples if task.gold(example) is not None]
    if not kept:
        raise ValueError(
            f"none of its {len(examples)} training examples is labelled: train on another set, or set "
            "`evaluate_only: true`."
        )
    return examples if len(kept) == len(examples) else kept


def encode(task: Task[Any], examples: Sequence[Any], tokens: Tokens) -> Encoded:
    """`task.encode`, kept on disk under a hash of all that it depends on."""
    if not _are_texts(examples):
        return task.encode(examples, tokens)
    key = _key(task, examples, tokens)
    return Encoded.of_parts(*cached("encoded", key, lambda: task.encode(examples, tokens).parts()))


def _are_texts(examples: Sequence[Any]) -> bool:
    """Not images, of which there is nothing to tokenise, and whose `repr` is not the whole of them."""
    return dataclasses.is_dataclass(next(iter(examples), None))


def _key(task: Task[Any], examples: Sequence[Any], tokens: Tokens) -> str:
    digest = blake2b(digest_size=20)
    # Models of one vocabulary may differ in segments (BERT and DistilBERT) and in what they pad with.
    limits = (tokens.max_length, tokens.has_types, tokens.pad)
    for part in (str(_FORMAT), task.kind, repr(task), tokens.fingerprint, repr(limits)):
        digest.update(part.encode() + b"\0")
    for piece in _pieces(examples):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(examples: Sequence[Any]) -> Iterator[bytes]:
    """The examples' whole content, some thousand at a time: calls cost more than bytes."""
    for start in range(0, len(examples), 4096):
        yield repr(examples[start : start + 4096]).encode("utf-8", "surrogatepass")
