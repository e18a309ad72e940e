"""Meta-gradients in float64: equal to plain autograd, to `higher`, and to finite differences."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from few_shot_toys import (
    NaiveSharing,
    Net,
    assert_gradients,
    batch,
    leaves,
    loss,
    outputs,
    unrolled,
)
from torch import Tensor, nn
from torch.nn import functional as F

from gradaccord.meta import FOMAML, MAML, DotProd, MAMLPlusPlus, MetaSGD, Reptile, Task
from gradaccord.meta.episodes.minibatches import minibatches, pairs
from gradaccord.meta.learners.mamlpp import multi_step_weights

K, LR = 3, 0.3


def gradients_of(objective: Tensor, given: dict[str, Tensor]) -> dict[str, Tensor | None]:
    found = torch.autograd.grad(objective, list(given.values()), allow_unused=True)
    return dict(zip(given, found, strict=True))


def of_model(found: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    return {f"model.{name}": gradient for name, gradient in found.items()}


@pytest.mark.parametrize("first_order", [False, True])
def test_maml_equals_autograd_through_the_unrolled_loop(first_order: bool) -> None:
    model, tasks = Net(), batch()
    w = leaves(model)
    expected = gradients_of(unrolled(w, tasks, K, lambda n, k: LR, first_order=first_order), w)
    learner = (FOMAML if first_order else MAML)(model, inner_lr=LR, inner_steps=K)
    report = learner.backward(tasks)
    assert_gradients(learner, of_model(expected))
    value = unrolled(w, tasks, K, lambda n, k: LR).detach()
    assert report.query_loss == pytest.approx(float(value), 1e-12)


def test_the_orders_differ() -> None:
    found = []
    for kind in (MAML, FOMAML):
        learner = kind(Net(), inner_lr=LR, inner_steps=K)
        learner.backward(batch())
        found.append(learner.model.conv.weight.grad)
    assert (found[0] - found[1]).norm() > 0.05 * found[0].norm()


@pytest.mark.parametrize("kind", [MAML, FOMAML])
def test_weights_that_are_not_adapted_still_learn(kind: Any) -> None:
    model, tasks = Net(), batch()
    w = leaves(model)
    head = ["head.weight", "head.bias"]
    objective = unrolled(w, tasks, K, lambda n, k: LR, adapted=head, first_order=kind is FOMAML)
    learner = kind(model, inner_lr=LR, inner_steps=K, adapted=lambda name: name.startswith("head"))
    learner.backward(tasks)
    assert_gradients(learner, of_model(gradients_of(objective, w)))


@pytest.mark.parametrize("first_order", [False, True])
def test_meta_sgd_equals_autograd(first_order: bool) -> None:
    model, tasks = Net(), batch()
    learner = MetaSGD(model, inner_lr=LR, inner_steps=K, first_order=first_order)
    with torch.no_grad():  # rates that differ, one of them negative
        for name in learner.adapted:
            learner.rates[name].mul_(
                torch.linspace(-0.2, 1.5, learner.rates[name].numel()).view_as(learner.rates[name])
            )
    w = leaves(model)
    rates = {n: learner.rates[n].detach().clone().requires_grad_() for n in w}
    objective = unrolled(w, tasks, K, lambda n, k: rates[n], first_order=first_order)
    found = gradients_of(objective, w | {f"rate {n}": r for n, r in rates.items()})
    learner.backward(tasks)
    expected = of_model({n: found[n] for n in w})
    expected |= {f"rates.{n.replace('.', '/')}": found[f"rate {n}"] for n in w}
    assert_gradients(learner, expected)


def naive_mamlpp(learner: MAMLPlusPlus, tasks: Any, **options: Any) -> dict[str, Tensor | None]:
    w = leaves(learner.model)
    adapted = [n for n in w if not n.startswith("norm")]
    rates = {n: learner.rates[n].detach().clone().requires_grad_() for n in adapted}
    norms = {
        n: learner.norms.affine[n].detach().clone().requires_grad_() for n in w if n not in adapted
    }
    share = options.pop("share", None)
    objective = unrolled(
        w,
        tasks,
        K,
        lambda n, k: rates[n][k],
        at_step=lambda theta, k: theta | {n: steps[k] for n, steps in norms.items()},
        adapted=adapted,
        share=share,
        **options,
    )
    given = of_model(w)
    given |= {f"rates.{n.replace('.', '/')}": r for n, r in rates.items()}
    given |= {f"norms.affine.{n.replace('.', '/')}": r for n, r in norms.items()}
    if share is not None:
        given |= {"sharing.m": share.m, "sharing.lam": share.lam}
    return gradients_of(objective, given)


def perturb(learner: nn.Module) -> None:
    """Make what starts equal differ, by step and by tensor."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in learner.named_parameters():
            if not name.startswith("model."):
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(noise, alpha=0.1)


@pytest.mark.parametrize("epoch", [0, 4, 15])
@pytest.mark.parametrize("statistics", ["batch", "running"])
def test_mamlpp_equals_autograd_whatever_the_epoch(epoch: int, statistics: str) -> None:
    learner = MAMLPlusPlus(
        Net(), inner_lr=LR, inner_steps=K, epoch_length=2, second_order_from=2, statistics=statistics
    )
    perturb(learner)
    for _ in range(2 * epoch + 1):
        learner.after_step()
    tasks = batch()
    expected = naive_mamlpp(
        learner,
        tasks,
        query_weights=multi_step_weights(K, epoch, 15),
        first_order=epoch < 2,
    )
    report = learner.backward(tasks)
    assert_gradients(learner, expected)
    assert report.gradients == 3 * (2 * K if epoch < 15 else K + 1)


def test_weights_of_the_multi_step_loss_are_the_authors() -> None:
    assert multi_step_weights(5, 0, 15) == pytest.approx([0.2] * 5)
    middle = multi_step_weights(5, 9, 15)
    assert middle == pytest.approx([0.2 - 9 / 75] * 4 + [0.2 + 36 / 75])
    assert sum(multi_step_weights(5, 14, 15)) == pytest.approx(1)
    assert min(multi_step_weights(5, 1499, 1500)) == pytest.approx(0.03 / 5)
    assert multi_step_weights(5, 15, 15) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("kind", [MAML, MetaSGD, MAMLPlusPlus])
def test_gradient_sharing_equals_algorithm_1(kind: Any, first_order: bool) -> None:
    learner = kind(Net(), inner_lr=LR, inner_steps=K, share=True, first_order=first_order)
    perturb(learner)
    naive = NaiveSharing(K)
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.02)
    for iteration in range(4):
        tasks = batch(seed=iteration)
        with torch.no_grad():
            naive.m.copy_(learner.sharing.m)
            naive.lam.copy_(learner.sharing.lam)
        if kind is MAMLPlusPlus:
            weights = multi_step_weights(K, 0, 15)
            options = {"query_weights": weights, "first_order": first_order, "share": naive}
            expected = naive_mamlpp(learner, tasks, **options)
        else:
            w = leaves(learner.model)
            rates: dict[str, Any] = dict.fromkeys(w, LR)
            given = of_model(w) | {"sharing.m": naive.m, "sharing.lam": naive.lam}
            if kind is MetaSGD:
                rates = {n: learner.rates[n].detach().clone().requires_grad_() for n in w}
                given |= {f"rates.{n.replace('.', '/')}": r for n, r in rates.items()}
            objective = unrolled(
                w, tasks, K, lambda n, k, r=rates: r[n], share=naive, first_order=first_order
            )
            expected = gradients_of(objective, given)
        report = learner.backward(tasks)
        assert (expected["sharing.m"] is None) == (iteration == 0)  # there is no mean to weigh yet
        assert_gradients(learner, expected)
        for k in range(K):
            kept = torch.cat([learner.sharing.means[n][k].flatten() for n in learner.adapted])
            assert torch.allclose(kept, naive.means[k], rtol=0, atol=1e-12)
        assert report.sigma_lambda == pytest.approx(torch.sigmoid(naive.lam).tolist())
        optimizer.step()
        learner.after_step()
    assert learner.sharing.m.grad.norm() > 0


@pytest.mark.parametrize("kind", [MAML, MetaSGD, MAMLPlusPlus])
def test_lambda_of_minus_infinity_is_the_method_without_sharing(kind: Any) -> None:
    plain = kind(Net(), inner_lr=LR, inner_steps=K)
    shared = kind(Net(), inner_lr=LR, inner_steps=K, share=True)
    for iteration in range(3):
        with torch.no_grad():
            shared.sharing.lam.fill_(-torch.inf)
        tasks = batch(seed=iteration)
        plain.backward(tasks)
        shared.backward(tasks)
        named = dict(shared.named_parameters())
        for name, parameter in plain.named_parameters():
            if parameter.grad is None:
                assert named[name].grad is None
            else:
                assert torch.allclose(named[name].grad, parameter.grad, rtol=1e-13, atol=1e-15)
        assert torch.equal(shared.logits_by_step(tasks[0]), plain.logits_by_step(tasks[0]))


def test_maml_equals_higher() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        higher = pytest.importorskip("higher")
        model, tasks = Net(tracks=False), batch()
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)
        for task in tasks:
            with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (copied, steps):
                for _ in range(K):
                    steps.step(F.cross_entropy(copied(task.support), task.support_labels))
                (F.cross_entropy(copied(task.query), task.query_labels) / len(tasks)).backward()
    expected = {n: p.grad.clone() for n, p in model.named_parameters()}
    learner = MAML(model, inner_lr=LR, inner_steps=K)
    learner.backward(tasks)
    assert_gradients(learner, of_model(expected))


@pytest.mark.parametrize("kind", [MAML, MetaSGD, MAMLPlusPlus])
@pytest.mark.parametrize("share", [False, True])
def test_meta_gradient_equals_finite_differences(kind: Any, share: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 2), nn.Tanh(), nn.BatchNorm1d(2), nn.Linear(2, 3))
    tasks = batch(tasks=2)
    options = {"multi_step_epochs": 0} if kind is MAMLPlusPlus else {}
    learner = kind(model.double(), inner_lr=LR, inner_steps=2, share=share, **options)
    learner.backward(tasks)
    learner.backward(tasks)  # with sharing: the second has a mean to start from
    start = copy.deepcopy(learner.state_dict())
    learner.backward(tasks)
    found = {n: p.grad for n, p in learner.named_parameters() if p.grad is not None}
    checked = 0
    for name, parameter in learner.named_parameters():
        if name not in found:
            continue
        for place in range(0, parameter.numel(), max(1, parameter.numel() // 3)):
            values = []
            for side in (1e-5, -1e-5):
                learner.load_state_dict(start)
                with torch.no_grad():
                    parameter.view(-1)[place] += side
                values.append(learner.backward(tasks).query_loss)
            slope = (values[0] - values[1]) / 2e-5
            assert float(found[name].view(-1)[place]) == pytest.approx(slope, rel=1e-6, abs=1e-9), name
            checked += 1
    assert checked >= 16


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


def dotprod_by_hand(
    w: dict[str, Tensor], one: Task, two: Task, weight: float, cap: float
) -> dict[str, Tensor]:
    """G1 + G2 - weight H2 G1 with the whole Hessian of the second batch."""
    names, shapes = list(w), [v.shape for v in w.values()]
    sizes = [v.numel() for v in w.values()]

    def of(flat: Tensor) -> dict[str, Tensor]:
        parts = flat.split(sizes)
        return {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}

    flat = torch.cat([v.detach().reshape(-1) for v in w.values()])

    def value(task: Task) -> Any:
        return lambda x: loss(of(x), task.support, task.support_labels)

    first = torch.autograd.functional.jacobian(value(one), flat)
    second = torch.autograd.functional.jacobian(value(two), flat)
    term = -weight * torch.autograd.functional.hessian(value(two), flat) @ first
    limit = cap * (first + second).norm()
    term = term * min(1.0, float(limit / term.norm()))
    return of(first + second + term)


def part_of(task: Task, places: Tensor) -> Task:
    return Task(task.support[places], task.support_labels[places], task.query, task.query_labels)


@pytest.mark.parametrize("cap", [0.1, float("inf")])
def test_dotprod_outside_equals_the_whole_hessian(cap: float) -> None:
    model, tasks = Net(), batch(tasks=2, shots=4)
    learner = DotProd(model, reading="outer", inner_batch=5, weight=0.2, max_ratio=cap)
    report = learner.backward(tasks)
    w = leaves(model)
    mean = {n: torch.zeros_like(v) for n, v in w.items()}
    for place, task in enumerate(tasks):
        ((a, b),) = pairs(len(task.support), 5, 1, learner._generator(place))
        assert not set(a.tolist()) & set(b.tolist())
        found = dotprod_by_hand(w, part_of(task, a), part_of(task, b), 0.2, cap)
        mean = {n: mean[n] + found[n] / 2 for n in mean}
    assert_gradients(learner, of_model(mean))
    assert report.capped == (1.0 if cap < 1 else 0.0)


def test_dotprod_inside_equals_the_whole_hessian_step_by_step() -> None:
    model, tasks = Net(), batch(tasks=2, shots=4)
    options = {"inner_optimizer": "sgd", "inner_lr": 0.1, "inner_steps": 5, "weight": 0.2}
    learner = DotProd(model, inner_batch=3, max_ratio=0.3, **options)
    report = learner.backward(tasks)
    w = leaves(model)
    mean = {n: torch.zeros_like(v) for n, v in w.items()}
    for place, task in enumerate(tasks):
        theta = {n: v.detach().clone() for n, v in w.items()}
        drawn = list(pairs(len(task.support), 3, 3, learner._generator(place)))
        for number, (a, b) in enumerate(drawn):
            if number < 2:
                found = dotprod_by_hand(theta, part_of(task, a), part_of(task, b), 0.2, 0.3)
            else:  # the fifth mini-batch is alone
                alone = {n: v.clone().requires_grad_() for n, v in theta.items()}
                value = loss(alone, task.support[a], task.support_labels[a])
                found = dict(zip(alone, torch.autograd.grad(value, list(alone.values())), strict=True))
            theta = {n: theta[n] - 0.1 * found[n] for n in theta}
        mean = {n: mean[n] + (w[n].detach() - theta[n]) / 2 for n in mean}
    assert_gradients(learner, of_model(mean))
    assert report.gradients == 2 * (3 + 3 + 1)


def test_tasks_of_different_sizes_and_a_loss_of_the_users_own() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    tasks = [
        Task(*(torch.randn(n, 1, dtype=torch.float64) for n in (4, 4, 6, 6))),
        Task(*(torch.randn(n, 1, dtype=torch.float64) for n in (7, 7, 2, 2))),
    ]
    learner = MAML(model, inner_lr=0.05, inner_steps=2, loss=F.mse_loss)
    report = learner.backward(tasks)
    total = torch.zeros((), dtype=torch.float64)
    for task in tasks:
        w = list(model.parameters())
        for _ in range(2):
            hidden = torch.tanh(task.support @ w[0].T + w[1]) @ w[2].T + w[3]
            inner = (hidden - task.support_labels).square().mean()
            found = torch.autograd.grad(inner, w, create_graph=True)
            w = [v - 0.05 * g for v, g in zip(w, found, strict=True)]
        hidden = torch.tanh(task.query @ w[0].T + w[1]) @ w[2].T + w[3]
        total = total + (hidden - task.query_labels).square().mean() / 2
    expected = torch.autograd.grad(total, list(model.parameters()))
    names = [n for n, _ in learner.named_parameters()]
    assert_gradients(learner, dict(zip(names, expected, strict=True)))
    assert torch.isnan(torch.tensor(report.query_accuracy))


def test_the_hand_written_network_is_the_module() -> None:
    model = Net()
    images = batch().support[0]
    assert torch.allclose(outputs(leaves(model), images), model(images), rtol=1e-12, atol=1e-13)
