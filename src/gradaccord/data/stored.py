"""Examples that lie on disk and are made when they are asked for: a split of millions takes no memory.

An example is a JSON list of its fields; all lie one after another in a mapped tensor of bytes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, overload

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import EXAMPLES, Example
from gradaccord.data.files.growing import Growing
from gradaccord.data.files.tensor_cache import Kept, cached, fingerprint
from gradaccord.version import __version__

_FORMAT = 1  # to be raised when an example is read or written otherwise
_BLOCK = 4096  # examples that are written, or read in order, at once


class Stored(Sequence[Any]):
    """Some of the examples of a split, in order. identity: another one holds other examples."""

    def __init__(
        self,
        example: type[Example],
        content: torch.Tensor,
        starts: torch.Tensor,
        identity: str,
        rows: range | torch.Tensor | None = None,
    ) -> None:
        self._example = example
        self._content, self._starts = content, starts  # as in a `Ragged` of bytes
        self._rows: range | torch.Tensor = range(len(starts) - 1) if rows is None else rows
        self.identity = identity

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Stored: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            which = place.indices(len(self))
            rows = self._rows
            rows = rows[place] if isinstance(rows, range) else rows[torch.arange(*which, device="cpu")]
            return self._with(rows, f"{self.identity}[{which}]")
        if not -len(self) <= place < len(self):
            raise IndexError(f"There is no example {place} among {len(self)}.")
        row = int(self._rows[place])
        begin, end = self._starts[row : row + 2].tolist()
        return self._made(self._content[begin:end].numpy().tobytes())

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _BLOCK):
            rows = torch.as_tensor(self._rows[start : start + _BLOCK], device="cpu")
            begins, ends = self._starts[rows].tolist(), self._starts[rows + 1].tolist()
            for begin, end in zip(begins, ends, strict=True):
                yield self._made(self._content[begin:end].numpy().tobytes())

    def part(self, places: torch.Tensor, how: str) -> Stored:
        """The examples at some places. how: they were chosen, of which they alone depend."""
        rows = self._rows
        chosen = rows.start + rows.step * places if isinstance(rows, range) else rows[places]
        return self._with(chosen, f"{self.identity}/{how}")

    def _with(self, rows: range | torch.Tensor, identity: str) -> Stored:
        return Stored(self._example, self._content, self._starts, identity, rows)

    def _made(self, content: bytes) -> Any:
        fields = json.loads(content.decode("utf-8", "surrogatepass"))
        return self._example(*(tuple(f) if isinstance(f, list) else f for f in fields))


def stored(
    read: Callable[[], Dataset], paths: Sequence[Path], options: object, watch: Watch = NOBODY
) -> Dataset:
    """The data set that `read` gives, its examples on disk; it is not called if they lie there already.

    paths: the files that it reads; a change of their names, sizes or times is seen. options: all else
    that the examples depend on; its `repr` tells.
    """
    known = "\n".join(fingerprint(path) for path in paths)
    what = ", ".join(path.name for path in paths)

    def make() -> Kept:
        watch.at(f"reading {what}", 0, 0)
        return _kept(read(), watch)

    kept, about = cached(
        "examples",
        f"{_FORMAT} {__version__} {known} {options!r}",
        make,
        what=what,
        watch=watch,
    )
    facts = json.loads(about["dataset"])
    splits = {
        split: Stored(EXAMPLES[facts["kind"]], kept[f"{split}:flat"], kept[f"{split}:starts"], identity)
        for split, identity in facts.pop("splits").items()
    }
    facts = {name: tuple(own) if isinstance(own, list) else own for name, own in facts.items()}
    return Dataset(**facts, splits=splits)


def _kept(dataset: Dataset, watch: Watch) -> Kept:
    tensors: dict[str, torch.Tensor] = {}
    identities = {}
    for split, examples in dataset.splits.items():
        flat, starts, digest = Growing(), Growing(), blake2b(dataset.kind.encode(), digest_size=20)
        starts.add(torch.zeros(1, dtype=torch.int64, device="cpu"))
        for block in _blocks(watch.each(f"keeping {split}", examples, len(examples))):
            joined = b"".join(block)
            digest.update(joined)
            lengths = torch.tensor([len(one) for one in block], device="cpu")
            starts.add(lengths.cumsum(0) + flat.length)
            flat.add(torch.frombuffer(bytearray(joined), dtype=torch.uint8))
        tensors |= {f"{split}:flat": flat.tensor, f"{split}:starts": starts.tensor}
        identities[split] = digest.hexdigest()
    facts = {field.name: getattr(dataset, field.name) for field in dataclasses.fields(dataset)}
    facts = {name: dict(own) if isinstance(own, Mapping) else own for name, own in facts.items()}
    return tensors, {"dataset": json.dumps({**facts, "splits": identities})}


def _blocks(examples: Iterable[Any]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    for example in examples:
        fields = [getattr(example, field.name) for field in dataclasses.fields(example)]
        block.append(json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if len(block) == _BLOCK:
            yield block
            block = []
    if block:
        yield block
