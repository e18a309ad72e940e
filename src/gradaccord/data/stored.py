"""Examples that stay on disk until they are used: a split of millions takes no memory.

An example is a JSON list of its fields; all lie one after another in a mapped tensor of bytes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from operator import attrgetter
from typing import Any, overload

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import EXAMPLES, Example
from gradaccord.data.files.growing import Growing
from gradaccord.data.files.layouts import Keep
from gradaccord.data.files.tensor_cache import Kept, cached
from gradaccord.version import __version__

_FORMAT = 2  # to be raised when an example is read or written otherwise
_BLOCK = 4096  # examples that are written, or read in order, at once
_SPREAD = 4  # times the bytes of a block's examples that one piece around them may have
_JSON = json.JSONEncoder(ensure_ascii=False)


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
        make, tuples = self._example, self._has_tuples
        for start in range(0, len(self), _BLOCK):
            rows = torch.as_tensor(self._rows[start : start + _BLOCK], device="cpu")
            begins, ends = self._starts[rows].tolist(), self._starts[rows + 1].tolist()
            low, high = min(begins), max(ends)
            if high - low <= _SPREAD * (sum(ends) - sum(begins)):  # one piece, with gaps in between
                piece = self._content[low:high].numpy().tobytes()
                parts = [piece[b - low : e - low] for b, e in zip(begins, ends, strict=True)]
            else:
                bounds = zip(begins, ends, strict=True)
                parts = [self._content[begin:end].numpy().tobytes() for begin, end in bounds]
            # A call of the parser costs more than the examples that it is given.
            block = json.loads((b"[" + b",".join(parts) + b"]").decode("utf-8", "surrogatepass"))
            for fields in block:
                if tuples:
                    fields = [tuple(f) if isinstance(f, list) else f for f in fields]
                yield make(*fields)

    @property
    def _has_tuples(self) -> bool:
        """Whether a field may be a tuple, which JSON makes a list."""
        shape: Any = self._example
        types = (str(field.type) for field in dataclasses.fields(shape))
        return any("tuple" in type for type in types)

    def parts(self) -> dict[str, torch.Tensor]:
        """All examples of the split, as they lie on disk."""
        return {"flat": self._content, "starts": self._starts}

    def part(self, places: torch.Tensor, how: str) -> Stored:
        """The examples at some places. how: what alone decided the choice, as text."""
        rows = self._rows
        chosen = rows.start + rows.step * places if isinstance(rows, range) else rows[places]
        return self._with(chosen, f"{self.identity}/{how}")

    def _with(self, rows: range | torch.Tensor, identity: str) -> Stored:
        return Stored(self._example, self._content, self._starts, identity, rows)

    def _made(self, content: bytes) -> Any:
        fields = json.loads(content.decode("utf-8", "surrogatepass"))
        return self._example(*(tuple(f) if isinstance(f, list) else f for f in fields))


def on_disk(examples: Iterable[Any], what: str = "examples", watch: Watch = NOBODY) -> Stored:
    """Put examples of one class on disk as they come: memory is that of a block."""
    shape: type[Example] = Example
    flat, starts, digest = Growing(), Growing(), blake2b(digest_size=20)
    starts.add(torch.zeros(1, dtype=torch.int64, device="cpu"))
    coming = iter(examples)
    while block := list(islice(coming, _BLOCK)):
        if shape is Example:
            shape = type(block[0])
            digest.update(shape.__name__.encode())
        written = _written(block)
        joined = b"".join(written)
        digest.update(joined)
        lengths = torch.tensor([len(one) for one in written], device="cpu")
        starts.add(lengths.cumsum(0) + flat.length)
        flat.add(torch.frombuffer(bytearray(joined), dtype=torch.uint8))
        watch.at(what, starts.length - 1, 0)
    return Stored(shape, flat.tensor, starts.tensor, digest.hexdigest())


def stored(read: Callable[[Keep], Dataset], known: str, what: str, watch: Watch = NOBODY) -> Dataset:
    """The data set that `read` gives, its examples on disk; it is not called if they lie there already.

    read: is given the function that keeps a split's examples (`on_disk`). known: all that the examples
    depend on: the files' `fingerprint` and how they are read. what: is read, for people.
    """

    def make() -> Kept:
        watch.at(f"reading {what}", 0, 0)
        return _kept(read(on_disk), watch)

    kept, about = cached("examples", f"{_FORMAT} {__version__} {known}", make, what=what, watch=watch)
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
        if not isinstance(examples, Stored):
            examples = on_disk(examples, f"keeping {split}", watch)
        tensors |= {f"{split}:{name}": part for name, part in examples.parts().items()}
        identities[split] = examples.identity
    facts = {field.name: getattr(dataset, field.name) for field in dataclasses.fields(dataset)}
    facts = {name: dict(own) if isinstance(own, Mapping) else own for name, own in facts.items()}
    return tensors, {"dataset": json.dumps({**facts, "splits": identities})}


def _written(block: Sequence[Any]) -> list[bytes]:
    fields = attrgetter(*(field.name for field in dataclasses.fields(block[0])))
    return [_JSON.encode(fields(example)).encode("utf-8", "surrogatepass") for example in block]
