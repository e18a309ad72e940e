"""The landscape: the problem in closed form, batched runs equal to the library's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
import torch

import gradaccord
from gradaccord.methods.trajectory.reptile import MultiTaskReptile
from gradaccord.methods.trajectory.sequential_reptile import SequentialReptile
from gradaccord.showcase.landscape import batched, unbatched
from gradaccord.showcase.landscape.plane import (
    OPTIMA,
    STARTS,
    TASKS,
    Point,
    gradients,
    hessian_product,
    losses,
    mean_cosine,
)
from gradaccord.showcase.landscape.runs import METHODS, SEQUENTIAL, Result, findings, run, summary

SEEDS = 3
LR = 0.01
RATE = torch.tensor([LR], dtype=torch.float64)


def scattered(number: int = 50) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return 20 * torch.rand(number, 2, generator=generator, dtype=torch.float64) - 4


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def path(iterates: Iterator[torch.Tensor], steps: int) -> torch.Tensor:
    return torch.stack(list(islice(iterates, steps)))


# The problem


def test_the_summed_loss_at_known_points() -> None:
    points = torch.cat([OPTIMA, OPTIMA.mean(0)[None]])
    totals = losses(points).sum(-1).tolist()
    near, far = 200 * math.exp(-2), 200 * math.exp(-0.2 * math.sqrt(200))
    corner, middle = -200 - near - far, -200 - 2 * near
    assert totals[:3] == pytest.approx([corner, middle, corner], rel=1e-12)
    assert (round(corner, 1), round(middle, 1), round(totals[3], 1)) == (-238.9, -254.1, -168.0)


def test_every_optimum_is_a_local_minimum_of_the_sum() -> None:
    angles = torch.arange(0, 6.3, 0.1, dtype=torch.float64)
    ring = 1e-3 * torch.stack([angles.cos(), angles.sin()], -1)
    for optimum in OPTIMA:
        assert (losses(optimum + ring).sum(-1) > losses(optimum).sum()).all()


def test_gradients_and_hessian_equal_autograd() -> None:
    points = scattered()
    vector = scattered().flip(0)
    for task in range(3):
        model = Point(points)
        (gradient,) = torch.autograd.grad(model.loss(task), model.phi, create_graph=True)
        (product,) = torch.autograd.grad((gradient * vector).sum(), model.phi)
        close(gradients(points)[:, task], gradient.detach(), 1e-14)
        close(hessian_product(points, OPTIMA[task], vector), product)


def test_the_gradient_is_zero_at_an_optimum() -> None:
    for task, optimum in enumerate(OPTIMA):
        model = Point(optimum)
        (gradient,) = torch.autograd.grad(model.loss(task), model.phi)
        assert gradient.tolist() == [0, 0]
        assert gradients(optimum)[task].tolist() == [0, 0]
        assert hessian_product(optimum, optimum, torch.ones(2)).tolist() == [0, 0]


def test_mean_cosine_equals_the_librarys_report() -> None:
    for point in scattered(5):
        model = Point(point)
        report = gradaccord.Sum(model).backward(model.losses())
        assert float(mean_cosine(point)) == pytest.approx(report.mean_cosine, abs=1e-12)
    assert float(mean_cosine(torch.tensor([1e6, 1e6], dtype=torch.float64))) != 0
    at_optimum = float(mean_cosine(OPTIMA[1]))  # x1 and x3 alone: their gradients are at right angles
    assert at_optimum == pytest.approx(0, abs=1e-12)


# Batched runs against the library's classes


def library_path(
    make: Callable[[Point], gradaccord.Method], start: torch.Tensor, steps: int, lr: float
) -> torch.Tensor:
    model = Point(start)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    return path(unbatched.descend(model, model.losses(), make(model), optimizer), steps)


@pytest.mark.parametrize(
    ("many", "make"), [(batched.pcgrad, gradaccord.PCGrad), (batched.gradvac, gradaccord.GradVac)]
)
def test_batched_combination_equals_the_class(
    many: Callable[..., Iterator[torch.Tensor]], make: Callable[..., gradaccord.Method]
) -> None:
    steps = 25
    near = OPTIMA.mean(0) + torch.tensor([[0.0, 0.0], [1.0, 0.5], [-2.0, 3.0]])  # where tasks conflict
    lrs = torch.tensor([LR, 0.03], dtype=torch.float64)
    found = path(many(near, SEEDS, lrs), steps)
    for i, start in enumerate(near):
        for seed in range(SEEDS):
            k = (i + seed) % len(lrs)
            own = library_path(
                lambda model, seed=seed: make(model, seed=seed), start, steps, float(lrs[k])
            )
            close(found[:, k, i, seed], own)
    assert not torch.equal(found[:, 0, 0, 0], found[:, 0, 0, 1])  # the order matters, and seeds differ


@pytest.mark.parametrize("max_ratio", [0.1, math.inf])
def test_batched_dotprod_equals_the_class(max_ratio: float) -> None:
    steps = 40
    found = path(batched.dotprod(STARTS - 4, SEEDS, RATE, max_ratio=max_ratio), steps)
    first, second = batched.draw_pairs(batched.generators(SEEDS), 100)
    assert (first != second).all()
    seed = 1
    for i, start in enumerate(STARTS - 4):
        model = Point(start)
        method = gradaccord.DotProd(model, max_ratio=max_ratio)
        optimizer = torch.optim.SGD(model.parameters(), LR)
        tasks = model.losses()
        for step in range(steps):
            pair = [TASKS[int(first[step, seed])], TASKS[int(second[step, seed])]]
            method.backward({task: tasks[task] for task in pair})
            optimizer.step()
            close(model.phi.detach(), found[step, 0, i, seed])


def test_a_paired_sum_is_dotprod_without_weight() -> None:
    start = scattered(1)
    one, two = OPTIMA[0], OPTIMA[2]
    expected = gradients(start)[:, 0] + gradients(start)[:, 2]
    close(batched.dotprod_gradient(start, one, two, 0.0, 0.1), expected)
    for max_ratio in (0.01, 0.1, 1.0):
        term = batched.dotprod_gradient(start, one, two, 0.5, max_ratio) - expected
        assert term.norm() <= max_ratio * expected.norm() * (1 + 1e-12)


@pytest.mark.parametrize("outer_lr", [0.1, 1.0])
def test_batched_sequential_reptile_equals_the_class(outer_lr: float) -> None:
    inner, outer = 8, 4
    rates = torch.tensor([0.05, 0.5], dtype=torch.float64)
    found = path(batched.sequential_reptile(STARTS, SEEDS, rates, inner, outer_lr), outer)
    generators = batched.generators(SEEDS)
    drawn = torch.cat([batched.draw(generators, 3, inner) for _ in range(outer)])
    for i, rate in enumerate(rates.tolist()):
        for j, start in enumerate(STARTS):
            model = Point(start)
            optimizer = torch.optim.SGD(model.parameters(), rate)
            method = SequentialReptile(model, optimizer, inner_steps=inner, outer_lr=outer_lr)
            tasks = model.losses()
            for step, task in enumerate(drawn[:, 2].tolist(), start=1):
                method.backward({TASKS[task]: tasks[TASKS[task]]})
                optimizer.step()
                method.after_step()
                if step % inner == 0:
                    close(model.phi.detach(), found[step // inner - 1, i, j, 2])


def test_batched_reptile_equals_the_class() -> None:
    inner, outer = 8, 3
    rates = torch.tensor([0.05, 0.5], dtype=torch.float64)
    found = path(batched.reptile(STARTS, rates, inner), outer)
    for i, rate in enumerate(rates.tolist()):
        model = Point(STARTS)  # independent points, all starts at once
        optimizer = torch.optim.SGD(model.parameters(), rate)
        method = MultiTaskReptile(model, optimizer, tasks=3, inner_steps=inner, outer_lr=0.1)
        for update in range(outer):
            for name, loss in model.losses().items():
                for _ in range(inner):
                    method.backward({name: loss})
                    optimizer.step()
                    method.after_step()
            close(model.phi.detach(), found[update, i, :, 0])


def test_points_of_one_model_are_independent_runs() -> None:
    lrs = torch.tensor([LR, 0.05], dtype=torch.float64)
    together = path(unbatched.mtl(STARTS, lrs), 30)
    for i, start in enumerate(STARTS):
        for k, lr in enumerate(lrs.tolist()):
            close(together[:, k, i, 0], library_path(gradaccord.Sum, start, 30, lr))
    together = path(unbatched.recadam(STARTS, LR, 30), 30)
    for i, start in enumerate(STARTS):
        close(together[:, :, i], path(unbatched.recadam(start[None], LR, 30), 30)[:, :, 0])


def test_a_seed_does_not_depend_on_how_many_there_are() -> None:
    rates = torch.tensor([0.5], dtype=torch.float64)
    few = path(batched.sequential_reptile(STARTS, 2, rates, 10), 3)
    many = path(batched.sequential_reptile(STARTS, 5, rates, 10), 3)
    assert torch.equal(few, many[:, :, :, :2])
    few, many = (path(batched.gradvac(STARTS, seeds, RATE), 20) for seeds in (2, 5))
    close(few, many[..., :2, :])


# What is found


def test_a_summary_of_a_known_path() -> None:
    """Two seeds, ten iterates: the last two lie about x3 in one and at the centroid in the other."""
    points = torch.zeros(10, 3, 2, 2, dtype=torch.float64)
    centroid = OPTIMA.mean(0)
    points[-2:, :, 1] = centroid
    points[-2, :, 0] = OPTIMA[2] + torch.tensor([0.5, 0.0])
    points[-1, :, 0] = OPTIMA[2] - torch.tensor([0.5, 0.0])
    row = summary("known", points, LR)[0]
    assert row.start == (20, 5)
    assert row.trapped == {"x3": 0.5}
    assert row.end == pytest.approx(((OPTIMA[2] + centroid) / 2).tolist())
    about = losses(points[-2:, 0, 0]).sum(-1).mean()
    values = torch.stack([about, losses(centroid).sum()])
    assert row.loss == pytest.approx(float(values.mean()))
    assert row.loss_error == pytest.approx(float(values.std() / math.sqrt(2)))


@pytest.fixture(scope="module")
def result() -> Result:
    return run(16, steps=500, outer_steps=100, rates=(0.3,))


def test_who_is_trapped(result: Result) -> None:
    """The pattern that the docs report, and what does not hold of the paper's claim."""
    by = {method: result.of(method) for method in METHODS}
    for method in ("MTL", "PCGrad", "GradVac", "RecAdam", "DotProd", "Paired sum"):
        assert [row.trapped_share for row in by[method]] == [1, 1, 1], method
    for method in ("GradNorm", "Reptile", SEQUENTIAL):
        assert [row.trapped_share for row in by[method]] == [0, 0, 0], method
    assert [list(row.trapped) for row in by["MTL"]] == [["x3"], ["x1"], ["x2"]]
    assert all(list(row.trapped) == ["x2"] for row in by["PCGrad"] + by["GradVac"])
    for escaped, trapped in zip(by[SEQUENTIAL], by["MTL"], strict=True):
        assert escaped.loss > trapped.loss + 30  # outside the traps the summed loss is higher
    for sequential, reptile, control in zip(
        by[SEQUENTIAL], by["Reptile"], by["Sequential, η = 1"], strict=True
    ):
        assert reptile.cosine < sequential.cosine < control.cosine
        assert control.loss > sequential.loss + 30
    assert "Never trapped: GradNorm, Reptile, Sequential Reptile." in findings(result)[0]


def test_who_is_trapped_is_a_matter_of_the_rate(result: Result) -> None:
    slow = path(batched.sequential_reptile(STARTS, 16, RATE), 100)[:, 0]
    assert [row.trapped_share for row in summary(SEQUENTIAL, slow, LR)] == [1, 1, 1]
    for method in ("MTL", "PCGrad", "GradVac"):
        assert [row.trapped_share for row in result.of(method, 0.3)] == [0, 0, 0], method
    for gradvac, sequential in zip(result.of("GradVac", 0.3), result.of(SEQUENTIAL, 0.3), strict=True):
        assert gradvac.cosine > sequential.cosine + 0.1


def test_a_run_leaves_threads_and_random_state_alone() -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = run(2, steps=5, outer_steps=2, inner_steps=3, rates=(0.1,))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    second = run(2, steps=5, outer_steps=2, inner_steps=3, rates=(0.1,))
    assert first.rows == second.rows


def test_progress_reaches_the_total() -> None:
    seen = []
    run(1, steps=4, outer_steps=2, inner_steps=1, progress=lambda *standing: seen.append(standing))
    _, done, total, left = seen[-1]
    assert (done, len(seen), left) == (total, total, 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seeds": 0}, "`seeds` is 0"),
        ({"outer_lr": 1.5}, "`outer_lr` is 1.5"),
        ({"rates": (0.1, -1.0)}, "`rates` holds -1.0"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        run(**options)
