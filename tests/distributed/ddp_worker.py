"""One of two DDP processes: trains every scenario and saves what it saw for the tests."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import scenarios
import torch
import torch.distributed as dist
from scenarios import DDP_SCENARIOS, PCGRAD, Scenario, leave
from torch.nn.parallel import DistributedDataParallel

import gradaccord
from gradaccord.core.overlap import Reduction


def main(folder: Path) -> None:
    warnings.filterwarnings("error", module="gradaccord")
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    saw: dict[str, Any] = {}
    for name, scenario in DDP_SCENARIOS.items():
        saw[name] = scenarios.train(scenario, replica(scenario), rank)
    saw["half"] = scenarios.train(scenarios.HALF, replica(scenarios.HALF), rank)
    saw["failure of a second pass"] = failure_of_a_second_pass(rank)
    saw["other heads"] = other_heads(rank)
    saw["one step"] = scenarios.train(Scenario(PCGRAD), replica(Scenario(PCGRAD)), rank, steps=1)
    saw["together"] = scenarios.train(scenarios.LONG, replica(scenarios.LONG), rank, steps=30)
    saw["running statistics"] = scenarios.train(scenarios.NORM, replica(scenarios.NORM), rank, steps=1)
    own = scenarios.OWN_STATISTICS
    saw["own statistics"] = scenarios.train(own, replica(own), rank, steps=1)
    saw["failures"] = {kind: failure(kind, rank) for kind in scenarios.FAILURES}
    saw["failures later"] = {kind: failure(kind, rank, later=True) for kind in scenarios.FAILURES}
    saw["order"] = order_of_a_step()
    saw["early"] = scenarios.train(scenarios.SENT, replica(scenarios.SENT), rank)
    with late():
        saw["late"] = scenarios.train(scenarios.SENT, replica(scenarios.SENT), rank)
    saw["varying"] = scenarios.varying_gradients(replica(Scenario(PCGRAD)), rank)
    saw["failures of one pass"] = {at: failure_of_one_pass(at, rank) for at in ("forward", "backward")}
    saw["scaler"] = scenarios.train_with_bad_step(scenarios.SCALED, replica(scenarios.SCALED), rank)
    saw["parameters alone"] = parameters_alone(rank)
    saw["warning"] = warning_on_the_bare_module()
    saw["Accelerate"] = with_accelerate(rank)
    saw["Fabric"] = with_fabric(rank)
    torch.save(saw, folder / f"{rank}.pt")
    leave()


def replica(scenario: Scenario) -> DistributedDataParallel:
    return DistributedDataParallel(scenarios.net(scenario), **scenario.ddp)


def order_of_a_step() -> list[str]:
    """When the losses of a second step are run, and when their gradients are sent."""
    model = replica(Scenario(PCGRAD))
    method, seen = PCGRAD(model), []
    sent = Reduction._send

    def send(reduction: Reduction, task: str) -> None:
        seen.append(f"send {task}")
        sent(reduction, task)

    def call(task: str) -> Any:
        seen.append(f"run {task}")
        return scenarios.loss(Scenario(PCGRAD), model, 0, task, slice(0, 6))

    given = {task: partial(call, task) for task in scenarios.TASKS}
    method.backward(given)
    seen.append("second step")
    Reduction._send = send  # type: ignore[method-assign]
    method.backward(given)
    Reduction._send = sent  # type: ignore[method-assign]
    return seen


@contextmanager
def late() -> Iterator[None]:
    """Nothing is known of earlier steps, as after a run was resumed: all is sent at the end."""
    agree = Reduction.agree

    def forgetful(reduction: Reduction, tasks: Any) -> None:
        reduction.known.clear()
        agree(reduction, tasks)

    Reduction.agree = forgetful  # type: ignore[method-assign]
    yield
    Reduction.agree = agree  # type: ignore[method-assign]


def failure(kind: str, rank: int, later: bool = False) -> dict[str, Any]:
    """What this process sees when the other one, or it, fails in its very first step; and afterwards.

    later: in its second step, in which gradients are sent before all tasks have run.
    """
    scenario = scenarios.FRAGILE
    model = replica(scenario)
    method = scenario.method(model)
    given = scenarios.losses(scenario, model, 0, rank)
    if later:
        method.backward(given)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    before = method.state_dict()
    raised = None
    try:
        method.backward(scenarios.broken(kind, given) if rank == 1 else given)
    except Exception as error:
        raised = error
    kept = all(torch.equal(p.grad, torch.full_like(p, 0.5)) for p in model.parameters())
    state_kept = scenarios.same(before, method.state_dict())
    return {
        "raised": raised and (type(raised).__name__, str(raised), getattr(raised, "__notes__", [])),
        "kept": kept and state_kept,
        "afterwards": scenarios.train(scenario, model, rank),
    }


def failure_of_a_second_pass(rank: int) -> dict[str, Any]:
    """What this process sees when a loss is another one, called again, on the second process alone."""
    scenario = Scenario(scenarios.sketched(scenarios.GRADVAC), **scenarios.COUNTED)
    model = replica(scenario)
    method = scenario.method(model)
    given = scenarios.losses(scenario, model, 0, rank)
    (call,) = given["b"]
    times = iter((1.0, 3.0))
    before = method.state_dict()
    raised = None
    try:
        if rank == 1:
            given["b"] = [lambda: ((pair := call())[0] * next(times), pair[1])]
        method.backward(given)
    except Exception as error:
        raised = (type(error).__name__, str(error))
    kept = all(p.grad is None for p in model.parameters())
    return {
        "raised": raised,
        "kept": kept and scenarios.same(before, method.state_dict()),
        "afterwards": scenarios.train(scenario, model, rank),
    }


def other_heads(rank: int) -> tuple[str, str] | None:
    """What this process sees when features decide and the second process lacks a task."""
    scenario = Scenario(scenarios.FEATURES, shared=True)
    model = replica(scenario)
    (call,) = scenarios.losses(scenario, model, 0, rank)
    given = call if rank == 0 else lambda: {t: loss for t, loss in call().items() if t != "b"}
    try:
        scenario.method(model).backward(given)
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def failure_of_one_pass(at: str, rank: int) -> dict[str, Any]:
    """What this process sees when a batch under all heads fails on the second one."""
    scenario = scenarios.FRAGILE_PASS
    model = replica(scenario)
    method = scenario.method(model)
    (call,) = scenarios.losses(scenario, model, 0, rank)

    def broken() -> Any:
        if at == "forward":
            raise ZeroDivisionError("on purpose")
        losses = call()
        losses["b"][0].register_hook(lambda gradient: 1 / 0)
        return losses

    before = method.state_dict()
    raised = None
    try:
        method.backward(broken if rank == 1 else call)
    except Exception as error:
        raised = (type(error).__name__, str(error))
    return {
        "raised": raised,
        "kept": scenarios.same(before, method.state_dict()),
        "afterwards": scenarios.train(scenario, model, rank),
    }


def parameters_alone(rank: int) -> scenarios.Run:
    """The method is given named parameters, and learns of DDP through its engine."""
    model = replica(Scenario(PCGRAD))

    def method(wrapped: Any, engine: Any) -> Any:
        return PCGRAD(wrapped.named_parameters(), engine=gradaccord.Engine(wrapped))

    return scenarios.train(Scenario(method), model, rank)


def warning_on_the_bare_module() -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gradaccord.PCGrad(replica(Scenario(PCGRAD)).module)
    return [str(warning.message) for warning in caught]


def with_accelerate(rank: int) -> scenarios.Run:
    from accelerate import Accelerator

    scenario = scenarios.WRAPPED
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = scenarios.net(scenario)
    model, optimizer = accelerator.prepare(model, scenario.optimizer(model.parameters()))
    assert isinstance(model, DistributedDataParallel)
    return scenarios.train(scenario, model, rank, engine=accelerator, optimizer=optimizer)


def with_fabric(rank: int) -> scenarios.Run:
    from lightning_fabric import Fabric

    scenario = scenarios.WRAPPED
    torch.set_default_dtype(torch.float64)  # into which Fabric casts what a model returns
    fabric = Fabric(accelerator="cpu", devices=scenarios.WORLD, strategy="ddp", precision="64-true")
    fabric.launch()
    model = scenarios.net(scenario)
    model, optimizer = fabric.setup(model, scenario.optimizer(model.parameters()))
    assert any(isinstance(module, DistributedDataParallel) for module in model.modules())
    run = scenarios.train(scenario, model, rank, engine=fabric, optimizer=optimizer)
    torch.set_default_dtype(torch.float32)
    return run


if __name__ == "__main__":
    main(Path(sys.argv[1]))
