"""Blocks of a split, encoded one by one and put together: memory is that of a block."""

from __future__ import annotations

import json
from collections import Counter

import torch

from gradaccord.data.encoded import Encoded
from gradaccord.data.files.growing import Growing
from gradaccord.data.files.tensor_cache import Kept


class EncodedBlocks:
    """`add` the encoded blocks of a split in order; `parts` are those of the whole split."""

    def __init__(self) -> None:
        self._parts: dict[str, Growing] = {}
        self._ends: Counter[str] = Counter()  # where the next block of a part begins
        self._notes: Counter[str] = Counter()
        self._about: dict[str, str] = {}

    def add(self, block: Encoded, examples: int) -> None:
        """Put a block, made of this many examples, at the end."""
        parts, self._about = block.parts()
        for name, part in parts.items():
            grown = self._parts.setdefault(name, Growing())
            if name == "first" or name.endswith(":starts"):
                shifted = part + self._ends[name]
                self._ends[name] = int(shifted[-1])
                part = shifted if not grown.length else shifted[1:]
            elif name == "example":
                part = part + self._ends[name]
                self._ends[name] += examples
            grown.add(part)
        self._notes.update(block.notes)

    def parts(self) -> Kept:
        """As `Encoded.parts` gives them."""
        tensors: dict[str, torch.Tensor] = {name: part.tensor for name, part in self._parts.items()}
        return tensors, {**self._about, "notes": json.dumps(dict(self._notes))}
