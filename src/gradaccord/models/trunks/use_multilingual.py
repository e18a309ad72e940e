"""Google's multilingual universal sentence encoder (version 3) as a trunk: 16 languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear, pad, relu

from gradaccord.data.encoded import Batch
from gradaccord.models.trunks.execution import checkpoint_blocks
from gradaccord.models.trunks.trunk import States, Trunk, save_own
from gradaccord.models.trunks.use_tokens import resources

MODEL_TYPE = "gradaccord-use"
WIDTH, BRANCH, SIZES = 512, 256, (2, 3, 5)  # of embeddings, of a branch; pieces that branches see
EPSILON = 1e-12
TABLES = 17  # parts that the package keeps the embeddings in, a scale each: row i is in part i % 17


class UseTrunk(Trunk):
    """Yang et al. 2020, "Multilingual Universal Sentence Encoder for Semantic Retrieval": the CNN.

        e = table[pieces]                                       512
        b_2, b_3, b_5 = split(norm(P e))                        three branches of 256
        b_n <- b_n + relu(W [windows of n pieces of b_n])       twice
        token states = norm(e, b_2, b_3, b_5)                   1,280
        m = (sum over pieces of (C state + c)) / sqrt(pieces)   512
        sentence = unit(tanh(S_2(relu(S_1(m)))))                512,  S(x) = A x + B relu(D x)

    Of 68.9 M weights 65.5 M are the table, of which a batch has few rows. pieces: its rows, without
    that of the padding.
    """

    tables = ("embedding",)

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces
        self.hidden = WIDTH + BRANCH * len(SIZES)
        self.dropout = 0.1
        # Not drawn at random, which takes longer than to read the weights.
        rows = torch.zeros(pieces + 1, WIDTH)
        self.embedding = nn.Embedding(pieces + 1, WIDTH, padding_idx=pieces, _weight=rows)
        self.projection = nn.Linear(WIDTH, BRANCH * len(SIZES))
        self.norm = nn.LayerNorm(BRANCH * len(SIZES), eps=EPSILON)
        self.windows = nn.ModuleDict({str(size): _Windows(size) for size in SIZES})
        self.last_norm = nn.LayerNorm(self.hidden, eps=EPSILON)
        self.pool = nn.Linear(self.hidden, WIDTH)
        self.dense = nn.Sequential(
            _Skip(WIDTH, 320, 320), nn.ReLU(), _Skip(320, WIDTH, WIDTH), nn.Tanh()
        )

    @property
    def pooled_width(self) -> int:
        """The width of the sentence vectors."""
        return WIDTH

    def forward(self, batch: Batch) -> States:
        """The states of the pieces, and sentence vectors of length 1."""
        mask = batch["attention_mask"]
        embedded: torch.Tensor = self.embedding(batch["input_ids"])
        present = mask.unsqueeze(-1).to(embedded.dtype)
        branches = self.norm(self.projection(embedded)).split(BRANCH, -1)
        seen = [
            window(branch * present, present)
            for window, branch in zip(self.windows.values(), branches, strict=True)
        ]
        tokens = self.last_norm(torch.cat([embedded, *seen], -1)) * present
        count = present.sum(1).clamp_min(1)
        total = linear(tokens.sum(1), self.pool.weight) + count * self.pool.bias
        sentences = self.dense(total * count.rsqrt())
        length = sentences.square().sum(-1, keepdim=True).clamp_min(EPSILON).sqrt()
        return States(tokens, mask, sentences=sentences / length)

    def checkpoint(self) -> None:
        """Recompute each branch."""
        checkpoint_blocks(self.windows.values())

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors, which only this library reads."""
        save_own(self, folder, {"model_type": MODEL_TYPE, "pieces": self.pieces})


class _Windows(nn.Module):
    """Twice h + relu(W [neighbours of h] + b); zeros stand before and after the text."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.first = nn.Linear(size * BRANCH, BRANCH)
        self.second = nn.Linear(size * BRANCH, BRANCH)

    def forward(self, states: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            states = (states + relu(layer(self._neighbours(states)))) * present
        return states

    def _neighbours(self, states: torch.Tensor) -> torch.Tensor:
        before, length = (self.size - 1) // 2, states.shape[1]
        padded = pad(states, (0, 0, before, self.size - 1 - before))
        return torch.cat([padded[:, place : place + length] for place in range(self.size)], -1)


class _Skip(nn.Module):
    """A x + B relu(D x), without biases."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.skip = nn.Linear(inputs, outputs, bias=False)
        self.inner = nn.Linear(inputs, hidden, bias=False)
        self.outer = nn.Linear(hidden, outputs, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.skip(inputs) + self.outer(relu(self.inner(inputs)))
        return found


def pretrained(pieces: int) -> UseTrunk:
    """The published weights, from a package that has them with six bits for each embedding.

    pieces: the size of the vocabulary; the package has a few rows more.
    """
    import numpy as np

    with np.load(resources() / "weights.npz", allow_pickle=False) as file:
        parts: dict[str, torch.Tensor] = {
            name: torch.from_numpy(np.asarray(file[name])) for name in file.files
        }
    trunk = UseTrunk(pieces)
    with torch.no_grad():
        for part in range(TABLES):
            rows = trunk.embedding.weight[part:pieces:TABLES]
            values = parts[f"q{part + 1}"][: len(rows)].float()
            rows.copy_(values * parts["scale"][part] + parts["lo"][part])
        weights = _weights(parts)
        for name, value in trunk.named_parameters():
            if name in weights:
                value.copy_(weights.pop(name))
    assert not weights
    return trunk


def _weights(parts: dict[str, Any]) -> dict[str, torch.Tensor]:
    """All but the embeddings, by our names; matrices there are applied from the right."""

    def joined(name: str) -> torch.Tensor:
        return torch.cat([parts[f"{name}{size}"] for size in SIZES], -1)

    found = {
        "projection.weight": joined("proj").T,
        "projection.bias": joined("proj_b"),
        "norm.weight": joined("ln_g"),
        "norm.bias": joined("ln_b"),
        "last_norm.weight": parts["ln_g"],
        "last_norm.bias": parts["ln_b"],
        "pool.weight": parts["cnn_W"].T,
        "pool.bias": parts["cnn_b"],
    }
    for size in SIZES:
        for layer, number in (("first", 1), ("second", 2)):
            found[f"windows.{size}.{layer}.weight"] = parts[f"w{number}_{size}"].T
            found[f"windows.{size}.{layer}.bias"] = parts[f"b{number}_{size}"]
    for place, names in ((0, ("p1", "d0", "d1")), (2, ("p3", "d2", "d3"))):
        for layer, name in zip(("skip", "inner", "outer"), names, strict=True):
            found[f"dense.{place}.{layer}.weight"] = parts[name].T
    return found
