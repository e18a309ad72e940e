"""A task together with its data, tokenised: read from the cache on disk if done before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.dataset import Dataset
from gradaccord.data.encoded import Encoded
from gradaccord.data.encoded_blocks import EncodedBlocks
from gradaccord.data.files.tensor_cache import Kept, cached
from gradaccord.data.stored import Stored
from gradaccord.models.tokens import Tokens
from gradaccord.tasks.task import Task, errors_named

_FORMAT = 2  # to be raised when an encoding changes
BLOCK = 16384  # examples encoded at once


@dataclass(frozen=True)
class Prepared:
    """What training and evaluation need of one task."""

    name: str
    task: Task[Any]
    splits: Mapping[str, Sequence[Any]]
    encoded: Mapping[str, Encoded]

    @property
    def notes(self) -> dict[str, dict[str, int]]:
        """What was cut or lost, for each split where anything was."""
        counted = {s: {k: v for k, v in e.notes.items() if v} for s, e in self.encoded.items()}
        return {split: notes for split, notes in counted.items() if notes}

    def labelled(self, split: str) -> bool:
        """Whether any example of a split is labelled."""
        examples = self.splits.get(split, ())
        return any(self.task.gold(example) is not None for example in examples)


def prepare(
    name: str, task: Task[Any], dataset: Dataset, tokens: Tokens, watch: Watch = NOBODY
) -> Prepared:
    """Tokenise every split, or read it from the cache (`gradaccord.data.files.tensor_cache`).

    Examples without a label are left out of the train split, and counted.
    """
    splits = dict(dataset.splits)
    with errors_named(name):
        if "train" in splits:
            splits["train"] = _labelled(task, splits["train"], watch)
        encoded = {
            split: encode(task, examples, tokens, f"{name} {split}", watch)
            for split, examples in splits.items()
        }
    left_out = {split: len(dataset.splits[split]) - len(examples) for split, examples in splits.items()}
    for split, count in left_out.items():
        if count:
            notes = {**encoded[split].notes, "left out, without a label": count}
            encoded[split] = dataclasses.replace(encoded[split], notes=notes)
    return Prepared(name, task, splits, encoded)


def _labelled(task: Task[Any], examples: Sequence[Any], watch: Watch) -> Sequence[Any]:
    """The examples for which a loss can be computed."""
    if not _are_texts(examples):
        return examples

    def make() -> Kept:
        counted = watch.each("looking for labels", examples, len(examples))
        known = bytearray(task.gold(example) is not None for example in counted)
        return {"known": torch.frombuffer(known, dtype=torch.bool)}, {}

    if isinstance(examples, Stored):
        key = f"{examples.identity} {task.kind} {task!r}"
        known = cached("labelled", key, make, watch=watch)[0]["known"]
    else:
        known = make()[0]["known"]
    if not known.any():
        raise ValueError(
            f"none of its {len(examples)} training examples is labelled: train on another set, or set "
            "`evaluate_only: true`."
        )
    if known.all():
        return examples
    places = known.nonzero().flatten()
    if isinstance(examples, Stored):
        return examples.part(places, "labelled")
    return [examples[place] for place in places.tolist()]


def encode(
    task: Task[Any], examples: Sequence[Any], tokens: Tokens, what: str = "", watch: Watch = NOBODY
) -> Encoded:
    """`task.encode`, kept on disk under a hash of all that it depends on. what: it is, for people."""
    if not _are_texts(examples):
        return task.encode(examples, tokens)

    def make() -> Kept:
        if len(examples) <= BLOCK or not task.in_blocks:
            return task.encode(examples, tokens).parts()
        found = EncodedBlocks()
        for start in range(0, len(examples), BLOCK):
            watch.at(f"tokenising {what}", start, len(examples))
            block = list(examples[start : start + BLOCK])
            found.add(task.encode(block, tokens), len(block))
        return found.parts()

    key = _key(task, examples, tokens)
    return Encoded.of_parts(*cached("encoded", key, make, what=f"tokens of {what}", watch=watch))


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
    if isinstance(examples, Stored):
        yield examples.identity.encode()
        return
    for start in range(0, len(examples), 4096):
        yield repr(examples[start : start + 4096]).encode("utf-8", "surrogatepass")
