"""The fast path of Conv-4: same values, first and second derivatives as the module through autograd."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from gradaccord.meta import FOMAML, MAML, MAMLPlusPlus, MetaSGD, Reptile
from gradaccord.meta.episodes.task_batch import Task, TaskBatch
from gradaccord.meta.network import conv4
from gradaccord.meta.network.conv4 import FastConv4, fast_network
from gradaccord.meta.network.conv4_block import Tape
from gradaccord.meta.network.conv4_first_block import FirstTape
from gradaccord.meta.network.general import chosen_network
from gradaccord.models.trunks.conv4 import Conv4

Network = Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]
double = partial(torch.rand, dtype=torch.float64)

LAYOUTS: dict[str, dict[str, Any]] = {
    "stride": {"channels": 1, "size": 28},
    "stride, mean, unscaled": {"channels": 1, "size": 28, "head": "mean", "scale": False},
    "stride, odd": {"channels": 3, "size": 21, "activation": "leaky_relu"},
    "pool": {"channels": 3, "size": 32, "downsample": "pool"},
    "pool, unscaled": {"channels": 3, "size": 32, "downsample": "pool", "scale": False},
    "pool, odd, leaky": {"channels": 3, "size": 35, "downsample": "pool", "activation": "leaky_relu"},
    "pool, odd, ceil": {"channels": 3, "size": 21, "downsample": "pool", "ceil": True},
    "pool before the activation": {
        "channels": 1,
        "size": 32,
        "downsample": "pool",
        "order": "norm-pool-activation",
    },
    "pool before the norm": {
        "channels": 3,
        "size": 21,
        "downsample": "pool",
        "order": "pool-norm-activation",
        "ceil": True,
    },
}


def model_of(layout: str) -> Conv4:
    """In float64, away from its start; a third of the batch-norm weights is negative."""
    torch.manual_seed(0)
    model = Conv4(3, filters=4, **LAYOUTS[layout]).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.1 * torch.randn_like(parameter)
            if name.endswith("norm.weight"):
                parameter[::3] *= -1
    return model


def general(model: Conv4) -> Network:
    return lambda params, images: functional_call(model, params, (images,))


def meta_gradient(network: Network, model: Conv4, steps: int = 3) -> list[torch.Tensor]:
    """Query loss and its gradient through the inner steps, by plain autograd."""
    generator = torch.Generator().manual_seed(1)
    shape = (6, model.channels, model.size, model.size)
    support, query = (torch.rand(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    labels = torch.arange(3).repeat(2)
    names, start = zip(*model.named_parameters(), strict=True)
    weights = list(start)
    for _ in range(steps):
        loss = cross_entropy(network(dict(zip(names, weights, strict=True)), support), labels)
        gradients = torch.autograd.grad(loss, weights, create_graph=True)
        weights = [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]
    loss = cross_entropy(network(dict(zip(names, weights, strict=True)), query), labels)
    return [loss.detach(), *torch.autograd.grad(loss, start)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_meta_gradient_equals_autograd_through_the_module(layout: str) -> None:
    model = model_of(layout)
    fast = fast_network(model)
    assert fast is not None
    for ours, true in zip(
        meta_gradient(fast, model), meta_gradient(general(model), model), strict=True
    ):
        assert (ours - true).abs().max() <= 1e-10 * max(1.0, float(true.abs().max()))


@pytest.mark.parametrize("layout", ["stride", "pool"])
def test_meta_gradient_has_a_second_order_part_to_be_compared(layout: str) -> None:
    """Without it the test above would pass for a network that is right to first order alone."""
    model = model_of(layout)

    def first_order(params: dict[str, torch.Tensor], images: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = functional_call(model, params, (images,))
        outputs.register_hook(lambda grad: grad.detach())
        return outputs

    true = meta_gradient(general(model), model)
    without = meta_gradient(first_order, model)
    assert max(float((a - b).abs().max()) for a, b in zip(true, without, strict=True)) > 1e-4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_is_chosen_by_the_start_up_check(layout: str) -> None:
    """Rounding in the gradient of a bias without effect must not send users to the slow path."""
    model = model_of(layout).float()
    images = torch.rand(8, model.channels, model.size, model.size)
    assert isinstance(chosen_network(model, images), FastConv4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_loss_gradient_and_its_derivative_equal_autograd(layout: str) -> None:
    """By hand: with all parameters, or with few of them, so that lower blocks are left out."""
    model = model_of(layout)
    fast = fast_network(model)
    assert fast is not None
    params = dict(model.named_parameters())
    images, labels = double(6, model.channels, model.size, model.size), torch.arange(3).repeat(2)
    for of in (
        list(params),
        [name for name in params if "norm" not in name],
        ["head.bias"],
        ["blocks.2.norm.bias", "head.weight"],
        ["blocks.1.conv.weight"],
        ["blocks.0.norm.bias"],
    ):
        found = []
        for by_hand in (True, False):
            if by_hand:
                gradient = fast.gradient(params, of, images, labels, cross_entropy, create_graph=True)
                plain = fast.gradient(params, of, images, labels, cross_entropy)
                assert all(torch.equal(a, b) for a, b in zip(gradient, plain, strict=True))
                assert not any(tensor.requires_grad for tensor in plain)
            else:
                loss = cross_entropy(general(model)(params, images), labels)
                gradient = list(
                    torch.autograd.grad(loss, [params[name] for name in of], create_graph=True)
                )
            slope = torch.stack(
                [(g * torch.linspace(1, 2, g.numel()).view_as(g)).sum() for g in gradient]
            )
            second = torch.autograd.grad(
                slope.sum(), list(params.values()), allow_unused=True, materialize_grads=True
            )
            found.append([*(g.detach() for g in gradient), *second])
        for ours, true in zip(*found, strict=True):
            assert (ours - true).abs().max() <= 1e-10 * max(1.0, float(true.abs().max()))


@pytest.mark.parametrize("layout", ["stride, mean, unscaled", "pool", "pool before the norm"])
def test_logits_pass_gradgradcheck(layout: str) -> None:
    """Finite differences, by a few of the parameters and by the images."""
    options = LAYOUTS[layout] | {"size": 16, "channels": 1, "activation": "leaky_relu"}
    torch.manual_seed(0)
    model = Conv4(2, filters=2, **options).double()
    fast = fast_network(model)
    assert fast is not None
    params = {name: parameter.detach() for name, parameter in model.named_parameters()}
    names = ["blocks.0.conv.weight", "blocks.0.norm.bias", "blocks.2.conv.weight", "head.weight"]
    moving = [(params[name] + 0.1).requires_grad_() for name in names]

    def logits(images: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return fast(params | dict(zip(names, values, strict=True)), images)

    for images in (double(3, 1, 16, 16), double(3, 1, 16, 16, requires_grad=True)):
        assert torch.autograd.gradcheck(logits, (images, *moving), fast_mode=True)
        assert torch.autograd.gradgradcheck(logits, (images, *moving), fast_mode=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queries_in_one_pass_equal_one_pass_for_each(layout: str) -> None:
    model = model_of(layout)
    fast = fast_network(model)
    assert fast is not None
    params = {name: parameter.detach() for name, parameter in model.named_parameters()}
    support, query = (double(n, model.channels, model.size, model.size) for n in (3, 4))
    true = torch.stack(
        [general(model)(params, torch.cat([support, one.unsqueeze(0)]))[-1] for one in query]
    )
    assert (fast.predict(params, support, query) - true).abs().max() <= 1e-10
    assert (general(model)(params, query) - true).abs().max() > 1e-3


def test_loss_linear_in_the_outputs_has_its_second_derivative() -> None:
    model = model_of("stride")
    fast = fast_network(model)
    assert fast is not None
    params, images = dict(model.named_parameters()), double(6, 1, 28, 28)
    gradient = fast.gradient(params, ["head.weight"], images, images, lambda o, _: o.sum(), True)
    (ours,) = torch.autograd.grad(gradient[0].square().sum(), params["blocks.3.norm.bias"])
    loss = general(model)(params, images).sum()
    true = torch.autograd.grad(loss, params["head.weight"], create_graph=True)[0]
    (true,) = torch.autograd.grad(true.square().sum(), params["blocks.3.norm.bias"])
    assert torch.allclose(ours, true, rtol=1e-10)


def test_equal_patches_in_a_window_pass_their_gradient_on_once() -> None:
    """Blank paper: all four values of a window are equal, and torch takes the first."""
    model = model_of("pool before the activation")
    fast = fast_network(model)
    assert fast is not None
    images = double(4, 1, 32, 32)
    images[:, :, 4:28, 4:28] = 0
    found = []
    for network in (fast, general(model)):
        loss = network(dict(model.named_parameters()), images).square().sum()
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    for ours, true in zip(*found, strict=True):
        assert (ours - true).abs().max() <= 1e-10 * max(1.0, float(true.abs().max()))


def test_a_third_derivative_is_refused_and_not_wrong() -> None:
    model = model_of("stride")
    fast = fast_network(model)
    assert fast is not None
    weights = list(model.parameters())
    loss = fast(dict(model.named_parameters()), double(4, 1, 28, 28)).square().sum()
    first = torch.autograd.grad(loss, weights, create_graph=True)
    with pytest.raises(RuntimeError, match="fast=False"):
        torch.autograd.grad(first[0].square().sum(), weights[0], create_graph=True)


def test_patches_are_kept_while_the_images_live_and_stay_the_same() -> None:
    model = model_of("pool")
    fast = fast_network(model)
    assert isinstance(fast, FastConv4)
    images = double(4, 3, 32, 32)
    params = dict(model.named_parameters())
    before = fast(params, images)
    assert fast.patches(images) is fast.patches(images)
    images.mul_(2).add_(torch.rand_like(images))
    after = fast(params, images)
    assert not torch.allclose(before, after)
    assert torch.allclose(after, model(images), atol=1e-10)
    del images
    gc.collect()
    assert not fast._kept


@pytest.mark.parametrize("share", [False, True])
def test_a_meta_iteration_is_freed_without_the_collector(share: bool) -> None:
    """A cycle would keep each task's activations until the garbage collector comes by."""
    learner = MAML(Conv4(3, filters=4), share=share)
    learner.backward(tasks_of(2))
    gc.collect()
    gc.disable()
    try:
        learner.backward(tasks_of(2))
        assert not [item for item in gc.get_objects() if type(item) in (Tape, FirstTape)]
    finally:
        gc.enable()


def test_images_with_a_gradient_of_their_own_get_it() -> None:
    model = model_of("pool")
    fast = fast_network(model)
    assert fast is not None
    images = double(4, 3, 32, 32, requires_grad=True)
    ours, true = (
        torch.autograd.grad(net(dict(model.named_parameters()), images).square().sum(), images)[0]
        for net in (fast, general(model))
    )
    assert torch.allclose(ours, true, atol=1e-10)
    stacks = torch.stack([images.detach(), images.detach().flip(0) / 2]).requires_grad_()
    logits = fast(dict(model.named_parameters()), stacks)
    (ours,) = torch.autograd.grad(logits.square().sum(), stacks)
    assert torch.allclose(ours[0], true, atol=1e-10)


def test_unknown_models_are_left_to_the_general_path() -> None:
    class Mine(Conv4):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return super().forward(images) * 2

    assert fast_network(torch.nn.Linear(3, 2)) is None
    assert fast_network(Mine(5, filters=4)) is None


METHODS: dict[str, Callable[..., Any]] = {
    "MAML": MAML,
    "FOMAML": FOMAML,
    "MetaSGD": MetaSGD,
    "MAMLPlusPlus": MAMLPlusPlus,
    "Reptile, moments reset": partial(Reptile, optimizer_state="reset"),
    "Reptile, moments kept": Reptile,
    "MAML, shared": partial(MAML, share=True),
}


SMALL = 6 * 4 * 14 * 14  # values in the first block's output for one of these tasks


def tasks_of(count: int) -> TaskBatch:
    generator = torch.Generator().manual_seed(2)
    support, query = (torch.rand(count, 6, 1, 28, 28, generator=generator) for _ in range(2))
    labels = torch.arange(3).repeat(2).expand(count, -1)
    return TaskBatch(support, labels, query, labels)


@pytest.mark.parametrize("name", METHODS)
def test_threads_give_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv4, "AT_ONCE", 2 * SMALL)
    found = []
    for threads in (1, 3):
        torch.manual_seed(0)
        learner = METHODS[name](Conv4(3, filters=4), threads=threads)
        for _ in range(2):
            report = learner.backward(tasks_of(5))
        found.append([report.query_loss, *(p.grad for p in learner.parameters() if p.grad is not None)])
    assert found[0][0] == found[1][0]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1:], found[1][1:], strict=True))


def unlike_tasks(model: Conv4) -> list[Task]:
    """Of six, six, six, three and six pictures."""
    generator = torch.Generator().manual_seed(3)
    shape = (model.channels, model.size, model.size)

    def draw(count: int) -> torch.Tensor:
        return torch.rand(count, *shape, generator=generator, dtype=torch.float64)

    labels = torch.arange(3).repeat(2)
    return [Task(draw(n), labels[:n], draw(6), labels) for n in (6, 6, 6, 3, 6)]


GROUPED: dict[str, Callable[..., Any]] = METHODS | {
    "Reptile, moments reset": partial(Reptile, optimizer_state="reset", inner_batch=2),
    "Reptile, moments kept": partial(Reptile, inner_batch=2),
    "Reptile, plain descent": partial(Reptile, inner_batch=2, inner_optimizer="sgd"),
    "MAML, recomputed": partial(MAML, recompute=True),
    "MAML, a loss of one's own": partial(MAML, loss=partial(cross_entropy, label_smoothing=0.1)),
    "MAML, the head stays": partial(MAML, adapted=lambda name: "head" not in name),
    "FOMAML, the head moves": partial(FOMAML, adapted=lambda name: "head" in name),
    "MetaSGD, first order": partial(MetaSGD, first_order=True),
}


@pytest.mark.parametrize("layout", ["stride", "pool before the norm"])
@pytest.mark.parametrize("name", GROUPED)
def test_several_tasks_in_one_pass_give_the_numbers_of_plain_autograd(
    name: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over two meta-iterations, so that moments and norms by step are carried on."""
    monkeypatch.setattr(conv4, "AT_ONCE", 10**9)
    found = []
    for fast in (True, False):
        learner = GROUPED[name](model_of(layout), inner_steps=3, fast=fast)
        for _ in range(2):
            report = learner.backward(unlike_tasks(learner.model))
            grads = [p.grad for p in learner.parameters() if p.grad is not None]
            torch.optim.SGD(learner.parameters(), lr=0.1).step()
            learner.after_step()
        numbers = torch.tensor(
            [report.query_loss, report.query_accuracy, report.gradients], dtype=torch.float64
        )
        found.append([tensor.double() for tensor in (numbers, *grads, *learner.buffers())])
    for ours, true in zip(*found, strict=True):
        assert (ours - true).abs().max() <= 1e-10 * max(1.0, float(true.abs().max()))


def test_neighbours_of_one_shape_are_grouped_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = MAML(model_of("stride"))
    tasks = unlike_tasks(learner.model)
    learner.functional.choose(tasks[0].support)
    sizes = {0: [1, 1, 1, 1, 1], 2: [1, 2, 1, 1], 3: [3, 1, 1]}
    for at_once, lengths in sizes.items():
        monkeypatch.setattr(conv4, "AT_ONCE", at_once * SMALL)
        groups = learner.functional.groups(tasks)
        assert [len(tasks[group]) for group in groups] == lengths
        assert [task for group in groups for task in tasks[group]] == tasks


@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacked_tasks_equal_each_alone(layout: str) -> None:
    """Logits, gradients and second derivatives, by each task's own weights and by shared ones."""
    model = model_of(layout)
    fast = fast_network(model)
    assert fast is not None
    names, shared = zip(*model.named_parameters(), strict=True)
    images = double(3, 6, model.channels, model.size, model.size)
    labels = torch.arange(3).repeat(3, 2)

    def losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.stack([cross_entropy(*pair) for pair in zip(logits, labels, strict=True)]).sum()

    def moved(of: Network, images: torch.Tensor, labels: torch.Tensor, loss: Any) -> list[torch.Tensor]:
        params = dict(zip(names, shared, strict=True))
        if isinstance(of, FastConv4):
            first = of.gradient(params, names, images, labels, loss, create_graph=True)
        else:
            value = loss(of(params, images), labels)
            first = list(torch.autograd.grad(value, shared, create_graph=True))
        weights = [w - 0.1 * g for w, g in zip(shared, first, strict=True)]
        logits = of(dict(zip(names, weights, strict=True)), images)
        return [logits.detach(), *torch.autograd.grad(loss(logits, labels), shared)]

    logits, *ours = moved(fast, images, labels, losses)
    alone = [moved(general(model), *pair, cross_entropy) for pair in zip(images, labels, strict=True)]
    assert (logits - torch.stack([each[0] for each in alone])).abs().max() <= 1e-10
    for place in range(len(shared)):
        true = torch.stack([each[1 + place] for each in alone]).sum(0)
        assert (ours[place] - true).abs().max() <= 1e-10 * max(1.0, float(true.abs().max()))


@pytest.mark.parametrize("method", [MAML, FOMAML, Reptile])
def test_autocast_is_left_to_the_general_network(method: Callable[..., Any]) -> None:
    found = []
    for fast in (True, False):
        torch.manual_seed(0)
        learner = method(Conv4(3, filters=4), fast=fast)
        with torch.autocast("cpu", torch.bfloat16):
            report = learner.backward(tasks_of(2))
            logits = learner.logits(tasks_of(2)[0])
        found.append((report.query_loss, logits))
    assert found[0][0] == pytest.approx(found[1][0], abs=0.05)
    assert torch.allclose(found[0][1], found[1][1], atol=0.1)


def test_threads_really_run_and_only_where_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv4, "AT_ONCE", SMALL)
    seen: dict[str, set[int]] = {}

    def watched(name: str, learner: Any) -> Any:
        own = learner.meta_gradient

        def meta_gradient(tasks: Any, first: int) -> Any:
            seen.setdefault(name, set()).add(threading.get_ident())
            return own(tasks, first)

        monkeypatch.setattr(learner, "meta_gradient", meta_gradient)
        return learner

    for name, learner in {
        "fast": MAML(Conv4(3, filters=4), threads=3),
        "general": MAML(Conv4(3, filters=4), threads=3, fast=False),
        "kept": Reptile(Conv4(3, filters=4), threads=3),
        "shared": MAML(Conv4(3, filters=4), threads=3, share=True),
    }.items():
        watched(name, learner).backward(tasks_of(5))
    here = threading.get_ident()
    assert here not in seen.pop("fast")
    assert seen == {name: {here} for name in ("general", "kept", "shared")}


def test_an_error_in_a_thread_reaches_the_caller_and_changes_nothing() -> None:
    learner = MAML(Conv4(3, filters=4), threads=2)
    learner.backward(tasks_of(4))
    before = [p.grad.clone() for p in learner.parameters()]
    tasks = list(tasks_of(4))
    tasks[2] = replace(tasks[2], support_labels=tasks[2].support_labels + 3)
    with pytest.raises(ValueError, match="the model has 3 outputs"):
        learner.backward(tasks)
    assert all(torch.equal(p.grad, old) for p, old in zip(learner.parameters(), before, strict=True))
