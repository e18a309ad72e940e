"""Examples as numbers: ragged token sequences, rows of them, and the batches cut from the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

Batch = dict[str, torch.Tensor]

IGNORED = -100  # the label of a token that has none, as torch's cross-entropy skips it


@dataclass(frozen=True)
class Ragged:
    """Sequences of any length in one flat tensor; the i-th is flat[starts[i] : starts[i + 1]]."""

    flat: torch.Tensor
    starts: torch.Tensor  # [sequences + 1] int64

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]], dtype: torch.dtype = torch.int32) -> Ragged:
        """Put lists one after another."""
        flat: list[int] = []
        starts = [0]
        for sequence in sequences:
            flat += sequence
            starts.append(len(flat))
        return cls(torch.tensor(flat, dtype=dtype, device="cpu"), torch.tensor(starts, device="cpu"))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, place: int) -> torch.Tensor:
        return self.flat[self.starts[place] : self.starts[place + 1]]

    @property
    def lengths(self) -> torch.Tensor:
        """The length of every sequence."""
        return self.starts.diff()

    def lengths_of(self, places: torch.Tensor) -> torch.Tensor:
        """The lengths of some sequences, without reading the others."""
        return self.starts[places + 1] - self.starts[places]

    def padded(self, places: torch.Tensor, filler: int, length: int | None = None) -> torch.Tensor:
        """Some sequences as a rectangle [places, longest] of int64."""
        starts, lengths = self.starts[places], self.lengths_of(places)
        width = int(lengths.max()) if length is None else length
        grid = torch.arange(width, device="cpu")
        inside = grid < lengths.unsqueeze(1)
        index = (starts.unsqueeze(1) + grid).clamp_max(max(len(self.flat) - 1, 0))
        if not len(self.flat):
            return torch.full((len(places), width), filler, device="cpu")
        return torch.where(inside, self.flat[index].long(), filler)


@dataclass(frozen=True)
class Encoded:
    """A split of a data set, tokenised. Batches are counted in rows.

    A row is one sequence for most tasks, one per choice for multiple choice, two for a pair encoded
    separately; a long context gives several rows of one example.

    ids: token ids of every sequence (None for images). types: segment ids, if the model has them.
    first: the sequences of row i are first[i] : first[i + 1].
    example: the number of the example that each row comes from, ascending.
    columns: a fixed value or vector per row ("label", "start", ...).
    tokens: a value per token ("tags"), in batches padded with `IGNORED`.
    aside: like `tokens`, for decoding only: not in batches ("offsets").
    notes: counts of what was cut or lost ("truncated", "answers lost"): always reported.
    """

    ids: Ragged | None
    first: torch.Tensor
    example: torch.Tensor
    types: Ragged | None = None
    columns: Mapping[str, torch.Tensor] = field(default_factory=dict)
    tokens: Mapping[str, Ragged] = field(default_factory=dict)
    aside: Mapping[str, Ragged] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    pad: int = 0

    @classmethod
    def single(
        cls,
        ids: Iterable[Sequence[int]],
        types: Iterable[Sequence[int]] | None = None,
        *,
        pad: int,
    ) -> Encoded:
        """One sequence per row, one row per example."""
        sequences = Ragged.of(ids)
        return cls(
            ids=sequences,
            first=torch.arange(len(sequences) + 1, device="cpu"),
            example=torch.arange(len(sequences), device="cpu"),
            types=None if types is None else Ragged.of(types),
            pad=pad,
        )

    def __len__(self) -> int:
        return len(self.example)

    @property
    def lengths(self) -> torch.Tensor:
        """The length of each row's longest sequence, which decides what a batch costs."""
        if self.ids is None:
            return torch.ones(len(self), dtype=torch.int64, device="cpu")
        lengths = self.ids.lengths
        if len(lengths) == len(self):
            return lengths
        rows = torch.repeat_interleave(torch.arange(len(self), device="cpu"), self.first.diff())
        return torch.zeros(len(self), dtype=torch.int64, device="cpu").scatter_reduce(
            0, rows, lengths, "amax"
        )

    def batch(self, rows: Sequence[int]) -> Batch:
        """Some rows as the model takes them.

        input_ids, attention_mask (and token_type_ids) are [sequences, length]; if rows have several
        sequences, `row` [sequences] says which place of the batch each belongs to.
        """
        chosen = torch.as_tensor(rows, device="cpu")
        batch = {name: column[chosen] for name, column in self.columns.items()}
        if self.ids is None:
            return batch
        counts = self.first[chosen + 1] - self.first[chosen]
        row = torch.repeat_interleave(torch.arange(len(chosen), device="cpu"), counts)
        within = torch.arange(len(row), device="cpu") - torch.repeat_interleave(
            counts.cumsum(0) - counts, counts
        )
        places = self.first[chosen][row] + within
        lengths = self.ids.lengths_of(places)
        batch["input_ids"] = self.ids.padded(places, self.pad)
        width = batch["input_ids"].shape[1]
        batch["attention_mask"] = (torch.arange(width, device="cpu") < lengths.unsqueeze(1)).long()
        if self.types is not None:
            batch["token_type_ids"] = self.types.padded(places, 0, width)
        for name, values in self.tokens.items():
            batch[name] = values.padded(places, IGNORED, width)
        if len(self.ids) != len(self):
            batch["row"] = row
        return batch

    def parts(self) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        """Everything as named tensors and short texts, to be kept in a file."""
        parts = {"first": self.first, "example": self.example}
        parts |= {f"columns/{name}": values.contiguous() for name, values in self.columns.items()}
        ragged = {f"tokens/{name}": values for name, values in self.tokens.items()}
        ragged |= {f"aside/{name}": values for name, values in self.aside.items()}
        if self.ids is not None:
            ragged["ids"] = self.ids
        if self.types is not None:
            ragged["types"] = self.types
        for name, values in ragged.items():
            parts[f"{name}:flat"], parts[f"{name}:starts"] = values.flat, values.starts
        return parts, {"notes": json.dumps(dict(self.notes)), "pad": str(self.pad)}

    @classmethod
    def of_parts(cls, parts: Mapping[str, torch.Tensor], about: Mapping[str, str]) -> Encoded:
        """What `parts` gave, put together again."""

        def ragged(name: str) -> Ragged | None:
            flat = parts.get(f"{name}:flat")
            return None if flat is None else Ragged(flat, parts[f"{name}:starts"])

        def group(prefix: str) -> dict[str, Ragged]:
            names = (n.removesuffix(":flat") for n in parts if n.endswith(":flat"))
            found = {n.removeprefix(prefix): ragged(n) for n in names if n.startswith(prefix)}
            return {name: values for name, values in found.items() if values is not None}

        columns = {n: p for n, p in parts.items() if n.startswith("columns/")}
        return cls(
            ids=ragged("ids"),
            first=parts["first"],
            example=parts["example"],
            types=ragged("types"),
            columns={n.removeprefix("columns/"): p for n, p in columns.items()},
            tokens=group("tokens/"),
            aside=group("aside/"),
            notes=json.loads(about["notes"]),
            pad=int(about["pad"]),
        )
