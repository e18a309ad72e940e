"""Distances in closed form, from a saved reference, and of sharded models."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from toy import trunk

from gradaccord.probe.distance import Distance


def test_distance_in_closed_form() -> None:
    model = trunk()
    distance = Distance(model)
    assert distance.measure().total == 0
    with torch.no_grad():
        model.layers[0].weight += 0.5
        model.layers[1].bias[0] += 3
        model.heads["a"].bias -= 2
    moved = distance.measure()
    first = 0.5 * math.sqrt(model.layers[0].weight.numel())
    head = 2 * math.sqrt(3)
    assert moved.layers["layers.0"] == pytest.approx(first, rel=1e-12)
    assert moved.layers["layers.1"] == pytest.approx(3, rel=1e-12)
    assert moved.layers["heads.a"] == pytest.approx(head, rel=1e-12)
    assert moved.layers["heads.b"] == 0
    assert moved.total == pytest.approx(math.sqrt(first**2 + 9 + head**2), rel=1e-12)
    assert moved.to_floats()["distance/layers.1"] == moved.layers["layers.1"]
    shared = Distance(model, within=["words", "layers"], reference=trunk())
    assert shared.measure().total == pytest.approx(math.sqrt(first**2 + 9), rel=1e-12)
    assert all(not name.startswith("heads") for name in shared.measure().layers)


def test_distance_from_a_saved_reference(tmp_path: Path) -> None:
    model = trunk(1).requires_grad_(False)
    torch.save(trunk(2).state_dict(), tmp_path / "pretrained.pt")
    found = Distance(model, reference=torch.load(tmp_path / "pretrained.pt")).measure()
    one, two = (torch.cat([p.detach().flatten() for p in trunk(i).parameters()]) for i in (1, 2))
    assert found.total == pytest.approx(float((one - two).norm()), rel=1e-12)


def test_distance_of_many_small_moves_is_exact_in_float32() -> None:
    model = nn.Linear(3000, 1000, bias=False)
    distance = Distance(model)
    with torch.no_grad():
        model.weight.zero_()
    exact = float(distance.reference["weight"].double().norm())
    assert distance.measure().total == pytest.approx(exact, rel=1e-12)


def test_tied_weights_count_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    distance = Distance(model)
    with torch.no_grad():
        model[0].weight += 1
    assert distance.measure().total == pytest.approx(3)


def test_a_reference_that_does_not_fit_is_refused() -> None:
    state = trunk().state_dict()
    with pytest.raises(ValueError, match="`reference` has no 'words.weight'"):
        Distance(trunk(), reference={k: v for k, v in state.items() if k != "words.weight"})
    state["words.weight"] = torch.zeros(1, 6)
    with pytest.raises(ValueError, match=r"'words.weight' in shape \(1, 6\)"):
        Distance(trunk(), reference=state)
    with pytest.raises(ValueError, match="`within` lists 'encoder'"):
        Distance(trunk(), within=["encoder"])


def test_distance_of_a_sharded_model() -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = trunk(1)
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        expected = Distance(trunk(1), reference=trunk(2)).measure()
        found = Distance(model, reference=trunk(2)).measure()
        own = Distance(model).measure()
    finally:
        dist.destroy_process_group()
    assert found == expected
    assert own.total == 0
