"""Reptile equals torch's optimisers, step by step."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

import pytest
import torch
from few_shot_toys import (
    Net,
    batch,
    leaves,
)
from torch import nn
from torch.nn import functional as F

from gradaccord.data.images import class_splits
from gradaccord.meta import MAML, DotProd, Episodes, Reptile, Task
from gradaccord.meta.episodes.minibatches import minibatches
from gradaccord.models.trunks.conv4 import Conv4


def reptile_by_hand(model: nn.Module, task: Task, optimizer: Any, drawn: Any) -> None:
    for places in drawn:
        optimizer.zero_grad()
        F.cross_entropy(model(task.support[places]), task.support_labels[places]).backward()
        optimizer.step()


@pytest.mark.parametrize("inner", ["adam", "sgd"])
@pytest.mark.parametrize("size", [None, 4])
def test_reptile_equals_torch_optimisers_step_by_step(inner: str, size: int | None) -> None:
    model, tasks = Net(tracks=False), batch()
    learner = Reptile(
        model, inner_optimizer=inner, inner_lr=0.01, inner_batch=size, optimizer_state="reset"
    )
    learner.backward(tasks)
    mean = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    for place, task in enumerate(tasks):
        own = copy.deepcopy(model)
        optimizer = (
            torch.optim.Adam(own.parameters(), lr=0.01, betas=(0.0, 0.999))
            if inner == "adam"
            else torch.optim.SGD(own.parameters(), lr=0.01)
        )
        drawn = list(minibatches(len(task.support), size, 5, learner._generator(place)))
        assert len(drawn) == 5
        reptile_by_hand(own, task, optimizer, drawn)
        for name, parameter in own.named_parameters():
            mean[name] += (model.get_parameter(name) - parameter).detach() / len(tasks)
    # Adam turns the convolution's bias, whose gradient is pure rounding before a norm, into steps.
    named = dict(learner.named_parameters())
    for name, expected in mean.items():
        if name != "conv.bias" or inner == "sgd":
            assert torch.allclose(named[f"model.{name}"].grad, expected, rtol=1e-9, atol=1e-13), name


def test_reptile_with_sgd_outside_is_the_papers_update() -> None:
    model, tasks = Net(), batch()
    learner = Reptile(model, inner_optimizer="sgd", inner_lr=0.1, inner_batch=None)
    before = leaves(model)
    ends = [learner.adapt(task.support, task.support_labels) for task in tasks]
    learner.backward(tasks)
    torch.optim.SGD(learner.parameters(), lr=0.7).step()
    for name, parameter in model.named_parameters():
        mean = torch.stack([end[name] - before[name] for end in ends]).mean(0)
        assert torch.allclose(parameter, before[name] + 0.7 * mean, rtol=1e-12, atol=1e-14)


def test_reptiles_second_moments_carry_over_between_tasks_only_if_kept() -> None:
    """Pitfall: they do in the original code, and differ from the paper's fresh optimiser."""
    tasks = batch(tasks=2)
    model = Net(tracks=False)
    kept = Reptile(model, inner_lr=0.02, inner_batch=None, optimizer_state="keep")
    own = copy.deepcopy(model)
    optimizer = torch.optim.Adam(own.parameters(), lr=0.02, betas=(0.0, 0.999))
    for iteration in range(2):
        kept.backward(tasks)
        mean = {n: torch.zeros_like(p) for n, p in own.named_parameters()}
        for task in tasks:
            own.load_state_dict(model.state_dict())
            for _ in range(5):
                optimizer.zero_grad()
                F.cross_entropy(own(task.support), task.support_labels).backward()
                optimizer.step()
            for name, parameter in own.named_parameters():
                mean[name] += (model.get_parameter(name) - parameter).detach() / 2
        for name in ("conv.weight", "norm.weight", "head.weight", "head.bias"):
            found = model.get_parameter(name).grad
            assert torch.allclose(found, mean[name], rtol=1e-9, atol=1e-13), (iteration, name)
    reset = Reptile(Net(tracks=False), inner_lr=0.02, inner_batch=None, optimizer_state="reset")
    reset.backward(tasks)
    assert not torch.allclose(reset.model.head.weight.grad, model.head.weight.grad, rtol=1e-3)


def test_reptile_reports_nan_without_queries() -> None:
    report = Reptile(Net()).backward(batch(queries=0))
    assert report.query_loss != report.query_loss
    assert report.to_floats()["gradients"] == 15


def test_averaged_moments_are_the_mean_of_what_the_tasks_leave() -> None:
    tasks, model = batch(tasks=3), Net(tracks=False)
    learner = Reptile(model, inner_lr=0.02, inner_batch=None, optimizer_state="average")
    squares = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    for iteration in range(2):
        learner.backward(tasks)
        ends, left = [], []
        for task in tasks:
            own = copy.deepcopy(model)
            optimizer = torch.optim.Adam(own.parameters(), lr=0.02, betas=(0.0, 0.999))
            for name, parameter in own.named_parameters():
                optimizer.state[parameter] = {
                    "step": torch.tensor(5.0 * iteration),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": squares[name].clone(),
                }
            for _ in range(5):
                optimizer.zero_grad()
                F.cross_entropy(own(task.support), task.support_labels).backward()
                optimizer.step()
            ends.append(dict(own.named_parameters()))
            left.append({n: optimizer.state[p]["exp_avg_sq"] for n, p in own.named_parameters()})
        squares = {n: torch.stack([each[n] for each in left]).mean(0) for n in squares}
        for name in ("conv.weight", "norm.weight", "head.weight", "head.bias"):
            own, found = model.get_parameter(name), learner.squares[name]
            way = torch.stack([own.detach() - end[name].detach() for end in ends]).mean(0)
            assert torch.allclose(own.grad, way, rtol=1e-9, atol=1e-13), (iteration, name)
            assert torch.allclose(found, squares[name], rtol=1e-9, atol=1e-15), (iteration, name)
        assert int(learner.inner_count) == 5 * (iteration + 1)


def test_averaged_moments_give_the_same_bits_on_threads() -> None:
    torch.manual_seed(0)
    model, found = Conv4(3, filters=4), []
    tasks = [
        Task(
            torch.rand(9, 1, 28, 28),
            torch.arange(3).repeat(3),
            torch.rand(3, 1, 28, 28),
            torch.arange(3),
        )
        for _ in range(5)
    ]
    for threads in (1, 2):
        learner = Reptile(
            copy.deepcopy(model), inner_batch=4, optimizer_state="average", threads=threads
        )
        for _ in range(2):
            learner.backward(tasks)
        found.append([p.grad for p in learner.parameters()] + list(learner.squares.buffers()))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_averaged_moments_join_all_tasks_of_a_batch() -> None:
    with pytest.raises(ValueError, match="averaged moments join all"):
        Reptile(Net(), optimizer_state="average").backward(batch(), of=6)


@pytest.mark.parametrize("layout", ["stride", "pool"])
def test_bf16_moves_like_fp32_and_keeps_weights_and_moments_in_it(layout: str) -> None:
    torch.manual_seed(0)
    ways, found = 5, {}
    model = Conv4(ways, 1, 28, 16, downsample=layout)
    centres = torch.rand(ways, 1, 28, 28)
    support = (centres.repeat(4, 1, 1, 1) + 0.1 * torch.rand(20, 1, 28, 28)) / 1.1
    task = Task(support, torch.arange(ways).repeat(4), centres, torch.arange(ways))
    for precision in ("fp32", "bf16"):
        learner = Reptile(copy.deepcopy(model), precision=precision)
        learner.backward([task, task])
        found[precision] = torch.cat([p.grad.flatten() for p in learner.parameters()])
        assert {t.dtype for t in (*learner.parameters(), *learner.squares.buffers())} == {torch.float32}
    assert found["bf16"].dtype == torch.float32
    assert not torch.equal(found["bf16"], found["fp32"])
    assert torch.cosine_similarity(found["bf16"], found["fp32"], dim=0) > 0.9


def test_bf16_learns_new_characters_as_well_as_fp32() -> None:
    """A short real run on the characters of matplotlib's fonts."""
    images, right = class_splits.load("glyphs"), {}
    for precision in ("fp32", "bf16"):
        torch.manual_seed(0)
        learner = Reptile(Conv4.reptile_omniglot(5, filters=24), precision=precision)
        optimizer = torch.optim.SGD(learner.parameters(), lr=1.0)
        episodes = Episodes(images.train, ways=5, shots=10, queries=1, tasks=5, seed=0)
        for tasks in islice(episodes, 40):
            learner.backward(tasks)
            optimizer.step()
            learner.after_step()
        tests = next(iter(Episodes(images.validation, ways=5, shots=5, queries=5, tasks=30, seed=1)))
        guesses = [learner.logits(task, steps=10).argmax(-1) == task.query_labels for task in tests]
        right[precision] = float(torch.cat(guesses).double().mean())
    assert right["fp32"] > 0.5
    assert right["bf16"] == pytest.approx(right["fp32"], abs=0.05)


def test_bf16_is_refused_where_it_cannot_work() -> None:
    network = Conv4(5, filters=4)
    for make in (MAML, DotProd):
        with pytest.raises(ValueError, match="second derivatives"):
            make(network, precision="bf16")
    for model, options in (
        (Net(), {}),
        (network, {"fast": False}),
        (copy.deepcopy(network).double(), {}),
    ):
        with pytest.raises(ValueError, match="only the fast network of Conv-4"):
            Reptile(model, precision="bf16", **options)
    with pytest.raises(ValueError, match="use 'fp32' or 'bf16'"):
        Reptile(network, precision="fp16")


@pytest.mark.parametrize("layout", ["reptile_omniglot", "maml_omniglot"])
@pytest.mark.parametrize("transductive", [True, False])
def test_predictions_with_bf16_are_those_of_fp32(layout: str, transductive: bool) -> None:
    """Also of queries that go through one pass, and of a single one; after a gradient in bf16."""
    torch.manual_seed(0)
    model = getattr(Conv4, layout)(5)
    support, labels = torch.rand(5, 1, 28, 28), torch.arange(5)
    queries = {
        count: Task(support, labels, torch.rand(count, 1, 28, 28), labels[:count]) for count in (1, 5)
    }
    narrow, wide = (Reptile(model, precision=precision) for precision in ("bf16", "fp32"))
    for task in queries.values():
        narrow.backward([task])  # fills what is kept of the images
        found, expected = (
            one.predictions([task], steps=0, transductive=transductive)[0] for one in (narrow, wide)
        )
        assert torch.equal(found, expected)
