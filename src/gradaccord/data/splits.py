"""Splits cut out of another one, or cut down to fewer examples, the same in every run.

    load("hiner/hi", cut=0.2)              # 20 % of its dev split stay dev, the rest is train
    cut(dataset, {"train": 0.7, "dev": 0.1, "test": 0.2})

Examples that share a text stay together: questions about a context, hypotheses of a premise, answers
about a passage. So no context is in two of the new splits. The choice depends only on the number of the
first such example in the file. So translations of one set (XNLI, XQuAD, XCOPA, NTREX) are cut at the
same lines, and no test example was trained on in another language.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.dataset import ORDER, Dataset
from gradaccord.data.files.tensor_cache import cached
from gradaccord.data.images.labelled import Images
from gradaccord.data.stored import Stored

_BLOCK = 65536  # rows that are numbers of Python at once


def cut(
    dataset: Dataset,
    shares: float | Mapping[str, float],
    *,
    seed: int = 0,
    watch: Watch = NOBODY,
) -> Dataset:
    """The data set with one split cut into parts: the train split, else the dev, else the test split.

    A new split replaces one of the same name if that is the one being cut, or if none of its examples
    is labelled.

    shares: the approximate share of each new split (groups stay whole), summing to at most 1; a number
        is the share that is held out as dev, and the rest is train.
    seed: another seed draws another cut.
    """
    wanted = {"train": 1 - shares, "dev": shares} if isinstance(shares, float | int) else dict(shares)
    source = next((name for name in ORDER if name in dataset.splits), None)
    if source is None:
        raise ValueError(f"`{dataset.name}` has no split to cut.")
    _check(wanted, dataset, source)
    examples = dataset.splits[source]
    how = f"cut {wanted} {seed}"
    if isinstance(examples, Stored):
        rows, _ = cached(
            "cut",
            f"{examples.identity} {how}",
            lambda: (_rows(examples, wanted, seed, watch), {}),
            what=f"{dataset.name} {source}",
            watch=watch,
        )
    else:
        rows = _rows(examples, wanted, seed, watch)
    for name, chosen in rows.items():
        if not len(chosen):
            raise ValueError(
                f"`cut` leaves no example for {name!r} out of {len(examples)} of `{dataset.name}`: "
                "give it a larger share."
            )
    parts = {name: _part(examples, rows[name], f"{how} {name}") for name in wanted}
    kept = {name: split for name, split in dataset.splits.items() if name != source}
    splits: dict[str, Sequence[Any]] = {**kept, **parts}
    return dataclasses.replace(dataset, splits={name: splits[name] for name in ORDER if name in splits})


def _rows(
    examples: Sequence[Any], shares: Mapping[str, float], seed: int, watch: Watch
) -> dict[str, torch.Tensor]:
    """The rows of each new split. Keys are compared by their 64-bit hashes, which take little room."""
    counted = watch.each("cutting", examples, len(examples))
    keys = _tensor(array("q", (hash(example.cut_key) for example in counted)))
    order = keys.argsort(stable=True)
    new = torch.ones(
        len(keys), dtype=torch.bool, device="cpu"
    )  # in this order: another key than before
    new[1:] = keys[order[1:]] != keys[order[:-1]]
    firsts = torch.empty_like(order)
    firsts[order] = order[new][new.cumsum(0) - 1]
    rows = {name: array("q") for name in shares}
    numbers = (first for block in torch.split(firsts, _BLOCK) for first in block.tolist())
    for row, first in enumerate(numbers):
        draw, end = uniform(f"{seed}/{first}"), 0.0
        for name, share in shares.items():
            end += share
            if draw < end:
                rows[name].append(row)
                break
    return {name: _tensor(chosen) for name, chosen in rows.items()}


def _tensor(numbers: array[int]) -> torch.Tensor:
    if not numbers:
        return torch.empty(0, dtype=torch.int64, device="cpu")
    return torch.frombuffer(numbers, dtype=torch.int64)


def drawn(examples: Sequence[Any], count: int) -> Sequence[Any]:
    """At most this many examples, drawn at random, the same in every run, in their old order.

    Files are often sorted by class, source or length: their first lines do not represent the rest.
    Splits of the same length (translations) keep the same lines, and a larger count keeps all that a
    smaller one does.
    """
    if count >= len(examples):
        return examples
    generator = torch.Generator(device="cpu").manual_seed(0)
    order = torch.randperm(len(examples), generator=generator, device="cpu")
    return _part(examples, order[:count].sort().values, f"drawn {count}")


def _part(examples: Sequence[Any], rows: torch.Tensor, how: str) -> Sequence[Any]:
    if isinstance(examples, Stored):
        return examples.part(rows, how)
    if isinstance(examples, Images):
        return examples.part(rows.tolist())
    return [examples[row] for row in rows.tolist()]


def _check(shares: Mapping[str, float], dataset: Dataset, source: str) -> None:
    for name, share in shares.items():
        if name not in ORDER:
            raise ValueError(f"`cut` names the split {name!r}: use train, dev or test.")
        if not 0 < share <= 1:
            raise ValueError(f"`cut` is {share:g} for {name!r}: a share is above 0 and at most 1.")
        if name != source and any(example.labelled for example in dataset.splits.get(name, ())):
            raise ValueError(
                f"`cut` would put part of {source!r} into {name!r}, which `{dataset.name}` has "
                "already: leave it out of `cut`."
            )
    if sum(shares.values()) > 1 + 1e-9:
        raise ValueError(
            f"`cut` has shares that sum to {sum(shares.values()):g}: they sum to at most 1."
        )


def uniform(text: str) -> float:
    """A number in 0..1 that depends on the text alone."""
    # Python's own hash() differs from process to process.
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
