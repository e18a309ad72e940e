"""Reptile and multi-task Reptile: closed forms, tasks in turn, checkpoints."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from trajectory_problems import LR, TASKS, Bowls, Net, descend, same, train, weights_of

from gradaccord.methods.combine.pcgrad import PCGrad
from gradaccord.methods.trajectory.reptile import MultiTaskReptile, Reptile

pytestmark = pytest.mark.usefixtures("one_thread")


def test_reptile_is_the_closed_form_on_a_quadratic() -> None:
    bowls = Bowls()
    contraction = torch.eye(5, dtype=torch.float64) - LR * bowls.A["a"]
    phi = bowls.x.detach().clone()
    reached = bowls.c["a"] + torch.linalg.matrix_power(contraction, 4) @ (phi - bowls.c["a"])
    descend(bowls, Reptile(bowls, outer_lr=0.25), ["a"] * 4)
    torch.testing.assert_close(bowls.x.detach(), 0.75 * phi + 0.25 * reached, rtol=1e-13, atol=1e-14)


def test_multi_task_reptile_is_the_mean_of_the_displacements() -> None:
    bowls = Bowls()
    phi = bowls.x.detach().clone()
    for _ in range(2):
        phi = phi + 0.3 * torch.stack([bowls.after(phi, [t] * 4) - phi for t in TASKS]).mean(0)
    method = MultiTaskReptile(bowls, tasks=3, inner_steps=4, outer_lr=0.3, optimizer_state="keep")
    descend(bowls, method, [task for task in TASKS for _ in range(4)] * 2)
    torch.testing.assert_close(bowls.x.detach(), phi, rtol=1e-13, atol=1e-14)


def test_multi_task_reptile_starts_every_task_at_phi() -> None:
    bowls = Bowls()
    phi = bowls.x.detach().clone()
    method = MultiTaskReptile(bowls, tasks=3, inner_steps=4, optimizer_state="keep")
    descend(bowls, method, ["a"] * 4 + ["b"] * 4)
    assert torch.equal(bowls.x.detach(), phi)
    assert method.step == 0
    assert method.done == 2


def test_multi_task_reptile_refuses_another_task_inside_a_trajectory() -> None:
    bowls = Bowls()
    method = MultiTaskReptile(bowls, tasks=3, inner_steps=4, optimizer_state="keep")
    descend(bowls, method, ["a"])
    before = bowls.x.grad
    with pytest.raises(ValueError, match="trajectory on a was given b: give one task for all 4 steps"):
        method.backward({"b": partial(bowls.loss, "b")})
    assert bowls.x.grad is before
    descend(bowls, method, ["a"] * 3 + ["b"])
    assert method.done == 1


@pytest.mark.parametrize("unfreeze", [False, True])
def test_multi_task_reptile_finishes_right_after_a_resume(unfreeze: bool) -> None:
    net, again = Net(), Net()
    if unfreeze:  # so that the sums are not in the order of the parameters
        net.words.requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make = partial(MultiTaskReptile, tasks=3, inner_steps=2, outer_lr=0.3, optimizer_state="keep")
    method = make(net)
    train(net, optimizer, method, range(2), 2)
    net.words.requires_grad_(True)
    train(net, optimizer, method, range(2, 4), 2)
    resumed = make(again)
    again.load_state_dict(net.state_dict())
    resumed.load_state_dict(method.state_dict())
    before = weights_of(net)
    for one in (method, resumed):
        one.finish()
    assert same(net, again)
    assert not torch.equal(net.words.weight, before["words.weight"])


@pytest.mark.parametrize("stop", [3, 4])  # in the middle, and between trajectories
def test_multi_task_reptile_resumes_after_a_parameter_was_unfrozen(stop: int) -> None:
    net, again = Net(), Net()
    net.words.requires_grad_(False)
    optimizer, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (net, again))
    make = partial(MultiTaskReptile, tasks=3, inner_steps=2, outer_lr=0.3, optimizer_state="keep")
    method, resumed = make(net), make(again)
    train(net, optimizer, method, range(2), 2)
    net.words.requires_grad_(True)
    train(net, optimizer, method, range(2, stop), 2)
    again.load_state_dict(net.state_dict())
    resumed.load_state_dict(method.state_dict())
    train(net, optimizer, method, range(stop, 8), 2)
    train(again, second, resumed, range(stop, 8), 2)
    assert same(net, again)


def test_multi_task_reptile_refuses_before_anything_runs() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    method = MultiTaskReptile(
        net, tasks=3, inner_steps=4, optimizer_state="keep", heads=["heads"], gradient=PCGrad(net)
    )
    calls = []

    def loss(task: str) -> torch.Tensor:
        calls.append(task)
        return net.loss(task, 0)

    for wrong in (lambda: {"a": loss("a")}, [lambda: {"a": loss("a")}]):
        with pytest.raises(
            TypeError, match=r"a callable that returns several losses.*\{task: callable"
        ):
            method.backward(wrong)
    method.backward({"a": partial(loss, "a")})
    optimizer.step()
    method.after_step()
    gradients = {name: p.grad for name, p in net.named_parameters()}
    state = method.gradient.state_dict()
    two = {task: partial(loss, task) for task in ("a", "b")}
    with pytest.raises(ValueError, match="trajectory on a was given a, b"):
        method.backward(two)
    assert calls == ["a"]
    assert all(p.grad is gradients[name] for name, p in net.named_parameters())
    assert torch.equal(method.gradient.state_dict()["generator"], state["generator"])


def test_multi_task_reptile_finishes_with_the_mean_over_the_tasks_seen() -> None:
    bowls = Bowls()
    phi = bowls.x.detach().clone()
    method = MultiTaskReptile(bowls, tasks=3, inner_steps=4, outer_lr=0.3, optimizer_state="keep")
    descend(bowls, method, ["a"] * 4 + ["b"] * 2)
    method.finish()
    away = [bowls.after(phi, ["a"] * 4) - phi, bowls.after(phi, ["b"] * 2) - phi]
    expected = phi + 0.3 * (away[0] + away[1]) / 2
    torch.testing.assert_close(bowls.x.detach(), expected, rtol=1e-13, atol=1e-14)
    assert method.done == 0


def test_multi_task_reptile_counts_the_displacements_from_before_the_type_changed() -> None:
    bowls = Bowls().float()
    bowls.A, bowls.c = ({t: x.float() for t, x in of.items()} for of in (bowls.A, bowls.c))
    method = MultiTaskReptile(bowls, tasks=2, inner_steps=4, outer_lr=0.3, optimizer_state="keep")
    phi = bowls.x.detach().double()
    descend(bowls, method, ["a"] * 4)
    bowls.double()
    bowls.A, bowls.c = ({t: x.double() for t, x in of.items()} for of in (bowls.A, bowls.c))
    method.finish()
    torch.testing.assert_close(
        bowls.x.detach(), phi + 0.3 * (bowls.after(phi, ["a"] * 4) - phi), rtol=1e-5, atol=1e-6
    )


def test_finishing_right_after_an_outer_update_changes_nothing() -> None:
    bowls = Bowls()
    method = MultiTaskReptile(bowls, tasks=1, inner_steps=2, optimizer_state="keep")
    method.finish()  # before any step
    descend(bowls, method, ["a", "a"])
    after = bowls.x.detach().clone()
    method.finish()
    assert torch.equal(bowls.x.detach(), after)
    with method.at_phi():  # between trajectories the weights are phi
        assert torch.equal(bowls.x.detach(), after)
    assert torch.equal(bowls.x.detach(), after)
