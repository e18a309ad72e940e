"""The same loop under Accelerate, Fabric and a gradient scaler ends at the same weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DistributedType
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision
from torch import nn

import gradaccord
from gradaccord.core.engine import as_engine

pytestmark = pytest.mark.usefixtures("one_thread")

TASKS = ("a", "b", "c")
METHODS = {
    "PCGrad": partial(gradaccord.PCGrad, seed=1),
    "GradVac": partial(gradaccord.GradVac, beta=0.2, granularity="layer", seed=1),
}
no_cuda_here = pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without CUDA")


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    """Accelerators of one process share their state: begin and end without any."""
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.heads = nn.ModuleDict({task: nn.Linear(16, 1) for task in TASKS})

    def forward(self, x: torch.Tensor, task: str) -> torch.Tensor:
        return self.heads[task](self.trunk(x))


def net(dtype: torch.dtype = torch.float32) -> Net:
    torch.manual_seed(0)
    return Net().to(dtype)


def loss(model: nn.Module, step: int, task: str, part: slice) -> tuple[torch.Tensor, int]:
    """The mean loss of some of the 12 items of a batch, and how many they are."""
    generator = torch.Generator().manual_seed(10 * step + TASKS.index(task))
    x = torch.randn(12, 6, generator=generator)[part]
    y = torch.randn(12, 1, generator=generator)[part]
    dtype = next(model.parameters()).dtype
    value = nn.functional.mse_loss(model(x.to(dtype), task), y.to(dtype))
    return value, len(y)


def losses(model: nn.Module, step: int) -> dict[str, Any]:
    parts = (slice(0, 9), slice(9, 12))
    return {task: [partial(loss, model, step, task, part) for part in parts] for task in TASKS}


def optimizer_of(model: nn.Module) -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def train(
    method: Any,
    model: nn.Module,
    optimizer: Any,
    scheduler: Any = None,
    context: Callable[[], Any] = nullcontext,
    steps: int = 6,
) -> list[Any]:
    """The loop that every test runs; returns the reports."""
    reports = []
    for step in range(steps):
        given = losses(model, step)
        with context():
            reports.append(method.backward(given))
        optimizer.step()
        method.after_step()
        if scheduler is not None:
            scheduler.step()
        optimizer.zero_grad()
    return reports


def raw(method: str, dtype: torch.dtype = torch.float32, **options: Any) -> tuple[Net, Any, list[Any]]:
    model = net(dtype)
    made = METHODS[method](model)
    return model, made, train(made, model, *optimizer_of(model), **options)


def scaled(method: str, scaler: Any, **options: Any) -> tuple[Net, Any, list[Any]]:
    model = net()
    made = METHODS[method](model, engine=scaler)
    optimizer, scheduler = optimizer_of(model)
    return model, made, train(made, model, Stepping(scaler, optimizer), scheduler, **options)


class Stepping:
    """How a user steps with a gradient scaler."""

    def __init__(self, scaler: Any, optimizer: torch.optim.Optimizer) -> None:
        self.scaler, self.optimizer = scaler, optimizer

    def step(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()


def assert_equal(model: nn.Module, expected: nn.Module, **tolerance: float) -> None:
    """By default to the last bit."""
    pairs = zip(model.parameters(), expected.parameters(), strict=True)
    for got, wanted in pairs:
        torch.testing.assert_close(got, wanted, **({"rtol": 0, "atol": 0} | tolerance))


def assert_same_state(state: Any, expected: Any) -> None:
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        same = torch.equal(state[name], value) if torch.is_tensor(value) else state[name] == value
        assert same, name


@pytest.mark.parametrize("method", METHODS)
def test_problem_is_one_where_the_method_matters(method: str) -> None:
    model, _, _ = raw(method)
    plain = net()
    train(gradaccord.Sum(plain), plain, *optimizer_of(plain))
    assert (
        max((p - q).abs().max() for p, q in zip(model.parameters(), plain.parameters(), strict=True))
        > 0.01
    )


@pytest.mark.parametrize("accumulation", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_accelerate_loop_equals_raw_loop(method: str, accumulation: int) -> None:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulation)
    model = net(torch.float64)
    model, optimizer, scheduler = accelerator.prepare(model, *optimizer_of(model))
    reports = train(METHODS[method](model, engine=accelerator), model, optimizer, scheduler)
    expected, _, wanted = raw(method, torch.float64)
    assert_equal(model, expected, rtol=1e-12, atol=1e-13)
    for got, want in zip(reports, wanted, strict=True):
        torch.testing.assert_close(got.gram, want.gram, rtol=1e-11, atol=1e-13)
        assert torch.equal(got.losses, reports[0].losses) == (got is reports[0])
    if accumulation != 3:  # dividing by a power of two is exact, and so is undoing it
        assert_equal(model, expected)


@pytest.mark.parametrize("method", METHODS)
def test_fabric_loop_equals_raw_loop(method: str) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    model = net()
    optimizer, scheduler = optimizer_of(model)
    model, optimizer = fabric.setup(model, optimizer)
    train(METHODS[method](model, engine=fabric), model, optimizer, scheduler)
    assert_equal(model, raw(method)[0])


@pytest.mark.parametrize("method", METHODS)
def test_scaled_loop_equals_unscaled_loop(method: str) -> None:
    model, made, reports = scaled(method, torch.amp.GradScaler("cpu", init_scale=2.0**14))
    expected, other, wanted = raw(method)
    assert_equal(model, expected)  # a power of two, which floating point takes out exactly
    assert_same_state(made.state_dict(), other.state_dict())
    for got, want in zip(reports, wanted, strict=True):
        assert torch.equal(got.losses, want.losses)
        torch.testing.assert_close(got.gram, want.gram, rtol=1e-6, atol=0)


def test_scaled_float16_loop_equals_unscaled_loop() -> None:
    context = partial(torch.autocast, "cpu", dtype=torch.float16)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    model, _, reports = scaled("PCGrad", scaler, context=context)
    expected, _, wanted = raw("PCGrad", context=context)
    assert_equal(model, expected, rtol=0, atol=0.01)  # float16 has three digits
    for got, want in zip(reports, wanted, strict=True):
        torch.testing.assert_close(got.gram, want.gram, rtol=0.02, atol=1e-3)


def test_clipping_between_unscaling_and_step_equals_the_unscaled_loop() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    norms = []
    for engine in (scaler, None):
        model = net()
        method = METHODS["GradVac"](model, engine=engine)
        optimizer, _ = optimizer_of(model)
        method.backward(losses(model, 0))
        if engine is not None:
            scaler.unscale_(optimizer)
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    assert norms[0] > 0.1


def overflowing(step: int, bad: int, given: dict[str, Any]) -> dict[str, Any]:
    """The losses, of which that of task b overflows in one step."""

    def call() -> tuple[torch.Tensor, int]:
        value, items = given["b"][0]()
        return value * float("inf"), items

    return given | {"b": [call, given["b"][1]]} if step == bad else given


@pytest.mark.parametrize("method", METHODS)
def test_inf_skips_the_step_and_leaves_the_state_as_it_was(method: str) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    model = net()
    made = METHODS[method](model, engine=scaler)
    optimizer, _ = optimizer_of(model)
    stepping = Stepping(scaler, optimizer)
    bad = 2
    for step in range(6):
        before, state = copy.deepcopy(model), made.state_dict()
        report = made.backward(overflowing(step, bad, losses(model, step)))
        finite = all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())
        stepping.step()
        assert report.finite == finite == (step != bad)
        assert scaler.get_scale() == (1024.0 if step < bad else 512.0)
        if step == bad:
            assert_equal(model, before)
            assert_same_state(made.state_dict(), state)
        else:
            with pytest.raises(AssertionError):
                assert_equal(model, before)
    for value in made.state_dict().values():
        assert not torch.is_tensor(value) or bool(torch.isfinite(value).all())


def test_inf_reaches_the_scaler_of_accelerate_and_of_fabric() -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)  # fp16 makes it on a GPU
    fabric = Fabric(
        accelerator="cpu",
        devices=1,
        plugins=MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=1024.0)),
    )
    wrapped = []
    model = net()
    wrapped.append((accelerator, *accelerator.prepare(model, optimizer_of(model)[0])))
    model = net()
    wrapped.append((fabric, *fabric.setup(model, optimizer_of(model)[0])))
    for engine, model, optimizer in wrapped:
        method = METHODS["GradVac"](model, engine=engine)
        reference = METHODS["GradVac"](net())
        with torch.autocast("cpu", dtype=torch.float16, enabled=engine is fabric):
            wanted = reference.backward(losses(reference.engine.model, 0))
        got = method.backward(losses(model, 0))
        torch.testing.assert_close(got.gram, wanted.gram, rtol=0.02, atol=1e-3)
        optimizer.step()
        optimizer.zero_grad()
        before, state = copy.deepcopy(list(model.parameters())), method.state_dict()
        method.backward(overflowing(1, 1, losses(model, 1)))
        optimizer.step()
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
        assert_same_state(method.state_dict(), state)


def test_disabled_scaler_passes_through() -> None:
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    assert_equal(scaled("GradVac", scaler)[0], raw("GradVac")[0])


@no_cuda_here
@pytest.mark.filterwarnings("ignore:torch.cuda.amp.GradScaler is enabled, but CUDA is not available")
def test_scaler_of_an_absent_gpu_passes_through() -> None:
    scaler = torch.amp.GradScaler("cuda")
    assert not as_engine(net(), scaler).skips_bad_steps
    assert_equal(scaled("GradVac", scaler)[0], raw("GradVac")[0])


@pytest.mark.parametrize("scaler", [None, torch.amp.GradScaler("cpu", enabled=False)])
def test_bad_loss_without_a_scaler_raises_and_changes_nothing(scaler: Any) -> None:
    model = net()
    method = METHODS["GradVac"](model, engine=scaler)
    train(method, model, optimizer_of(model)[0], steps=1)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    state = method.state_dict()
    with pytest.raises(ValueError, match="Task 'b' has the loss inf"):
        method.backward(overflowing(1, 1, losses(model, 1)))
    assert_same_state(method.state_dict(), state)
    assert all(torch.equal(p.grad, torch.full_like(p, 0.5)) for p in model.parameters())


def test_autocast_around_the_call_leaves_the_decisions_in_full_precision() -> None:
    context = partial(torch.autocast, "cpu", dtype=torch.float16)
    gradients, reports = [], []
    for around in (nullcontext, context):
        model = net()
        given = {
            task: [partial(inside, context, call) for call in calls]
            for task, calls in losses(model, 0).items()
        }
        with around():
            reports.append(METHODS["GradVac"](model).backward(given))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.equal(reports[0].gram, reports[1].gram)
    assert torch.equal(*gradients)


def inside(context: Any, call: Any) -> Any:
    with context():
        return call()


def test_bfloat16_autocast_equals_projection_by_hand() -> None:
    context = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
    model = net()
    conflicts = 0
    for step in range(10):
        a, b = (trunk_gradient(context, model, step, task) for task in ("a", "b"))
        if a @ b > 0:
            continue
        conflicts += 1
        expected = a - (a @ b) / (b @ b) * b + b - (a @ b) / (a @ a) * a
        with context():
            gradaccord.PCGrad(model).backward(
                {task: partial(loss, model, step, task, slice(0, 12)) for task in ("a", "b")}
            )
        got = torch.cat([p.grad.flatten().double() for p in model.trunk.parameters()])
        assert (got - expected).norm() < 1e-6 * expected.norm()
    assert conflicts > 2


def trunk_gradient(context: Any, model: Net, step: int, task: str) -> torch.Tensor:
    with context():
        value, _ = loss(model, step, task, slice(0, 12))
    gradients = torch.autograd.grad(value, list(model.trunk.parameters()))
    return torch.cat([g.flatten().double() for g in gradients])


def test_bfloat16_autocast_trains() -> None:
    model = net()
    method = METHODS["PCGrad"](model)
    optimizer, _ = optimizer_of(model)
    history = []
    for _ in range(60):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            history.append(float(method.backward(losses(model, 0)).losses.sum()))
        optimizer.step()
    assert history[-1] < 0.1 * history[0]


@pytest.mark.parametrize("framework", ["accelerate", "fabric"])
def test_bfloat16_of_the_frameworks_equals_raw_autocast(framework: str) -> None:
    model = net()
    optimizer, scheduler = optimizer_of(model)
    if framework == "accelerate":
        engine: Any = Accelerator(cpu=True, mixed_precision="bf16")
        model, optimizer, scheduler = engine.prepare(model, optimizer, scheduler)
    else:
        engine = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
        model, optimizer = engine.setup(model, optimizer)
    train(METHODS["GradVac"](model, engine=engine), model, optimizer, scheduler)
    # Both run the forward pass under autocast and hand its output on in float32.
    expected = net()
    forward = expected.forward

    def under_autocast(*inputs: Any) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return forward(*inputs).float()

    expected.forward = under_autocast  # type: ignore[method-assign]
    train(METHODS["GradVac"](expected), expected, *optimizer_of(expected))
    assert_equal(model, expected)


@pytest.mark.parametrize("engine", ["accelerate", 3, Accelerator, torch.optim.SGD])
def test_engine_of_another_kind_is_refused_in_one_sentence(engine: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^`engine` must be None, a torch.amp.GradScaler, .*, got \w+\.$"
    ):
        gradaccord.PCGrad(net(), engine=engine)


@pytest.mark.parametrize(
    "kind", [DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM, DistributedType.FSDP]
)
def test_accelerator_that_owns_the_gradients_is_refused(kind: DistributedType) -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.state.distributed_type = kind  # its packages are not needed to see the refusal
    with pytest.raises(ValueError, match=f"distributed_type {kind.value}.*use DDP, FSDP2"):
        gradaccord.PCGrad(net(), engine=accelerator)


def test_given_engine_is_used_as_it_is() -> None:
    model = net()
    engine = gradaccord.Engine(model)
    assert gradaccord.PCGrad(model.named_parameters(), engine=engine).engine is engine
