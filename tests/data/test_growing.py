"""`files.growing`: what was added is there, in memory or in a mapped file."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.files import growing
from gradaccord.data.files.growing import Growing


@pytest.mark.parametrize("in_memory", [10**6, 50])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_parts_are_put_together(
    monkeypatch: pytest.MonkeyPatch, in_memory: int, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(growing, "IN_MEMORY", in_memory)
    parts = [torch.randn(length, *shape, dtype=torch.float64) for length in (5, 0, 1, 9)]
    grown = Growing()
    for part in parts:
        grown.add(part)
    assert grown.length == 15
    assert torch.equal(grown.tensor, torch.cat(parts))


def test_a_part_of_another_type_is_refused_and_nothing_is_a_tensor_too() -> None:
    assert len(Growing().tensor) == 0
    grown = Growing()
    grown.add(torch.zeros(2))
    with pytest.raises(ValueError, match=r"torch.int64 of the shape \(2,\) after torch.float32"):
        grown.add(torch.zeros(2, dtype=torch.int64))
