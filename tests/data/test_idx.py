"""`images.idx`: every type of value, and bad files."""

from __future__ import annotations

import gzip
import struct

import pytest
import torch

from gradaccord.data.images.idx import read_idx


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


def idx(values: torch.Tensor, kind: int, letter: str) -> bytes:
    head = bytes([0, 0, kind, values.dim()]) + struct.pack(f">{values.dim()}I", *values.shape)
    return head + struct.pack(f">{values.numel()}{letter}", *values.flatten().tolist())


@pytest.mark.parametrize(
    ("dtype", "kind", "letter"),
    [(torch.uint8, 8, "B"), (torch.int16, 11, "h"), (torch.float32, 13, "f"), (torch.float64, 14, "d")],
)
def test_idx_of_every_kind(tmp_path, dtype, kind, letter):
    values = torch.arange(24).view(2, 3, 4).to(dtype) * 3
    (tmp_path / "plain").write_bytes(idx(values, kind, letter))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(values, kind, letter)))
    for name in ("plain", "packed.gz"):
        read = read_idx(tmp_path / name)
        assert read.dtype == dtype
        assert torch.equal(read, values)


def test_bad_idx_files_say_why(tmp_path):
    whole = idx(torch.arange(6, dtype=torch.uint8), 8, "B")
    for content, sentence in (
        (b"hello", "is not an idx file"),
        (whole[:-1], "is 13 bytes long where its header says 14"),
        (gzip.compress(whole)[:-9], "cannot be read"),
    ):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(ValueError, match=sentence):
            read_idx(tmp_path / "file")
