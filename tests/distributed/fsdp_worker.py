"""One of two FSDP2 processes: trains every scenario and saves what it saw for the tests."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import scenarios
import torch
import torch.distributed as dist
from scenarios import FSDP_SCENARIOS, LAYERS, PCGRAD, WORLD, Scenario, leave
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import distribute_module
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module


def main(folder: Path) -> None:
    warnings.filterwarnings("error", module="gradaccord")
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (WORLD,))
    hybrid = init_device_mesh("cpu", (WORLD, 1), mesh_dim_names=("copies", "parts"))
    saw: dict[str, Any] = {}
    for name, scenario in FSDP_SCENARIOS.items():
        saw[name] = scenarios.train(scenario, sharded(scenario, mesh), rank)
    saw["sketches"] = {
        name: scenarios.train(scenario, sharded(scenario, mesh), rank)
        for name, scenario in scenarios.FSDP_SKETCHES.items()
    }
    saw["half"] = scenarios.train(scenarios.HALF, sharded(scenarios.HALF, mesh), rank)
    saw["features"] = raised(lambda: scenarios.FEATURES(sharded(Scenario(PCGRAD), mesh)))
    plain = Scenario(PCGRAD)
    saw["clipped"] = scenarios.train(plain, sharded(plain, mesh), rank, clip=0.1)
    saw["hybrid"] = scenarios.train(scenarios.HYBRID, sharded(scenarios.HYBRID, hybrid), rank)
    saw["together"] = scenarios.train(scenarios.LONG, sharded(scenarios.LONG, mesh), rank, steps=30)
    saw["frozen"] = with_a_frozen_module_left_out(mesh, rank)
    saw["Accelerate"] = with_accelerate(mesh, rank)
    saw["other tasks"] = raised(lambda: other_tasks(mesh, rank))
    saw["other micro-batches"] = raised(lambda: other_micro_batches(mesh, rank))
    saw["other tasks under all heads"] = raised(lambda: other_tasks_under_all_heads(mesh, rank))
    saw["other calls"] = raised(lambda: other_numbers_of_calls(mesh, rank))
    saw["no task"] = raised(lambda: no_task(mesh, rank))
    saw["other tasks, hybrid"] = raised(lambda: other_tasks(hybrid, rank))
    saw["NaN"] = raised(lambda: not_a_number(mesh, rank))
    saw["root not sharded"] = raised(lambda: root_not_sharded(mesh))
    saw["tensor parallel"] = raised(lambda: tensor_parallel(mesh))
    saw["FSDP1"] = raised(first_generation)
    torch.save(saw, folder / f"{rank}.pt")
    leave()


def sharded(scenario: Scenario, mesh: DeviceMesh) -> nn.Module:
    model = scenarios.net(scenario)
    fully_shard(model.trunk, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def raised(call: Callable[[], Any]) -> tuple[str, str] | None:
    """What a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def step(mesh: DeviceMesh, rank: int, change: Callable[[Any], Any], **options: Any) -> None:
    """One step whose losses are changed on the second process; `.grad` must stay what it was."""
    scenario = Scenario(PCGRAD, **options)
    model = sharded(scenario, mesh)
    method = PCGRAD(model)
    given = scenarios.losses(scenario, model, 0, rank)
    try:
        method.backward(change(given) if rank == 1 else given)
    finally:
        assert all(p.grad is None for p in model.parameters())


def other_tasks(mesh: DeviceMesh, rank: int) -> None:
    step(mesh, rank, lambda given: {"d": given["a"], "b": given["b"]})


def other_micro_batches(mesh: DeviceMesh, rank: int) -> None:
    step(mesh, rank, lambda given: given | {"b": 2 * given["b"]})


def other_tasks_under_all_heads(mesh: DeviceMesh, rank: int) -> None:
    step(mesh, rank, lambda given: lambda: {"d": given[0]()["a"]}, shared=True)


def other_numbers_of_calls(mesh: DeviceMesh, rank: int) -> None:
    step(mesh, rank, lambda given: 2 * given, shared=True)


def no_task(mesh: DeviceMesh, rank: int) -> None:
    step(mesh, rank, lambda given: {})


def not_a_number(mesh: DeviceMesh, rank: int) -> None:
    step(mesh, rank, lambda given: given | {"b": lambda: given["b"][0]() * float("nan")})


def root_not_sharded(mesh: DeviceMesh) -> None:
    model = scenarios.net(Scenario(PCGRAD))
    fully_shard(model.trunk, mesh=mesh)
    PCGRAD(model)


def tensor_parallel(mesh: DeviceMesh) -> None:
    model = scenarios.net(Scenario(PCGRAD))
    parallelize_module(model.trunk[0], mesh, ColwiseParallel())
    PCGRAD(distribute_module(model, mesh))


def first_generation() -> None:
    model = FullyShardedDataParallel(scenarios.net(Scenario(PCGRAD)), device_id=torch.device("cpu"))
    PCGRAD(model)


def with_a_frozen_module_left_out(mesh: DeviceMesh, rank: int) -> scenarios.Run:
    scenario = Scenario(LAYERS)
    model = scenarios.net(scenario)
    frozen = set(model.trunk[0].requires_grad_(False).parameters())
    fully_shard(model, mesh=mesh, ignored_params=frozen)
    return scenarios.train(scenario, model, rank)


def with_accelerate(mesh: DeviceMesh, rank: int) -> scenarios.Run:
    from accelerate import Accelerator
    from accelerate.utils import DistributedType

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    accelerator.state.distributed_type = DistributedType.FSDP  # which it takes up on a GPU only
    scenario = scenarios.HYBRID
    return scenarios.train(scenario, sharded(scenario, mesh), rank, engine=accelerator)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
