"""What all trajectory methods share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from trajectory_problems import LR, TASKS, Bowls, Net, descend, same, train, weights_of

from gradaccord.methods.combine.pcgrad import PCGrad
from gradaccord.methods.combine.plain import Sum
from gradaccord.methods.regularize.recadam import RecAdam
from gradaccord.methods.trajectory.fomaml import FOMAML
from gradaccord.methods.trajectory.reptile import MultiTaskReptile, Reptile
from gradaccord.methods.trajectory.sequential_reptile import SequentialReptile

pytestmark = pytest.mark.usefixtures("one_thread")


ALL: dict[str, Callable[..., Any]] = {
    "SequentialReptile": partial(SequentialReptile, outer_lr=0.3),
    "Reptile": Reptile,
    "FOMAML": partial(FOMAML, outer_lr=0.7),
    "MultiTaskReptile": partial(MultiTaskReptile, tasks=2, outer_lr=0.3),
}


def test_several_tasks_in_a_step_are_summed() -> None:
    bowls = Bowls()
    phi = bowls.x.detach().clone()
    method = Reptile(bowls, inner_steps=1, outer_lr=0.5)
    method.backward({task: partial(bowls.loss, task) for task in TASKS})
    summed = sum(bowls.A[task] @ (phi - bowls.c[task]) for task in TASKS)
    torch.testing.assert_close(bowls.x.grad, summed)


@pytest.mark.parametrize("optimizer_state", ["reset", "keep"])
@pytest.mark.parametrize(
    "optimizer_of",
    [
        partial(torch.optim.SGD, lr=0.3, momentum=0.9),
        partial(torch.optim.AdamW, lr=0.01),
        partial(torch.optim.AdamW, lr=0.01, fused=True),
    ],
    ids=["SGD", "AdamW", "fused AdamW"],
)
@pytest.mark.parametrize("kind", [SequentialReptile, Reptile])
def test_outer_lr_one_is_plain_training_bit_for_bit(
    kind: Any, optimizer_of: Any, optimizer_state: str
) -> None:
    plain, net = Net(), Net()
    train(plain, optimizer_of(plain.parameters()), None, range(10))
    optimizer = optimizer_of(net.parameters())
    method = kind(net, optimizer, inner_steps=4, outer_lr=1, optimizer_state=optimizer_state)
    train(net, optimizer, method, range(10))
    assert same(net, plain)


def test_micro_batches_are_averaged_per_task() -> None:
    plain, net = Net().eval(), Net().eval()
    (plain.loss("a", 0) / 2 + plain.loss("a", 1) / 2).backward()
    SequentialReptile(net, optimizer_state="keep").backward(
        {"a": [partial(net.loss, "a", 0), partial(net.loss, "a", 1)]}
    )
    for p, q in zip(net.parameters(), plain.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None and q.grad is not None:
            torch.testing.assert_close(p.grad, q.grad)


def test_steps_that_inner_steps_does_not_divide_are_not_lost() -> None:
    bowls = Bowls()
    tasks = ["a", "b", "c", "a", "b", "c", "a"]  # 2 trajectories of 3 steps, and 1 step
    phi = bowls.x.detach().clone()
    for part in (tasks[:3], tasks[3:6], tasks[6:]):
        phi = phi + 0.3 * (bowls.after(phi, part) - phi)
    method = SequentialReptile(bowls, inner_steps=3, outer_lr=0.3, optimizer_state="keep")
    descend(bowls, method, tasks)
    assert method.step == 1
    method.finish()
    torch.testing.assert_close(bowls.x.detach(), phi, rtol=1e-13, atol=1e-14)
    method.finish()  # nothing is left to do, also not of a step in between
    with pytest.raises(RuntimeError, match="without backward"):
        method.after_step()
    torch.testing.assert_close(bowls.x.detach(), phi, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kind", ALL)
def test_evaluation_at_phi_changes_nothing(kind: str) -> None:
    net, twin = Net(), Net()
    optimizer, other = (torch.optim.AdamW(m.parameters(), lr=0.01) for m in (net, twin))
    method = ALL[kind](net, optimizer, inner_steps=4)
    undisturbed = ALL[kind](twin, other, inner_steps=4)
    for step in range(10):
        if step % 4 == 0:
            start = weights_of(net)
        train(net, optimizer, method, range(step, step + 1), inner=4)
        train(twin, other, undisturbed, range(step, step + 1), inner=4)
        theta = weights_of(net)
        with method.at_phi():
            phi = weights_of(net)
        expected = theta if method.step == 0 else start
        assert all(torch.equal(phi[name], expected[name]) for name in phi)
        with pytest.raises(KeyError), method.at_phi():
            raise KeyError
        assert same(net, twin)


@pytest.mark.parametrize("steps", [1, 4])
def test_training_and_saving_inside_at_phi_are_refused(steps: int) -> None:
    bowls = Bowls()
    method = Reptile(bowls)
    descend(bowls, method, ["a"] * steps)
    with method.at_phi():
        for call in (partial(method.backward, {"a": partial(bowls.loss, "a")}), method.after_step):
            with pytest.raises(RuntimeError, match=r"inside at_phi\(\).*leave the block first"):
                call()
        with pytest.raises(RuntimeError, match=r"state_dict\(\) was called inside at_phi"):
            method.state_dict()
    method.state_dict()


def test_heads_stay_as_trained() -> None:
    net, free = Net(), Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    start = weights_of(net)
    method = SequentialReptile(
        net,
        optimizer,
        inner_steps=3,
        outer_lr=0.25,
        optimizer_state="keep",
        heads=["heads.a", "heads.b"],
    )
    train(net, optimizer, method, range(3))
    train(free, torch.optim.SGD(free.parameters(), lr=0.3), None, range(3))
    trained = weights_of(free)
    for name, weight in weights_of(net).items():
        expected = trained[name]
        if not name.startswith(("heads.a", "heads.b")):
            expected = start[name] + 0.25 * (trained[name] - start[name])
        torch.testing.assert_close(weight, expected)


def test_reset_gives_fresh_moments_to_what_moved_and_leaves_the_schedule() -> None:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    method = SequentialReptile(net, optimizer, inner_steps=3, heads=["heads"])
    for step in range(3):
        train(net, optimizer, method, range(step, step + 1))
        schedule.step()
    assert set(optimizer.state) == set(net.heads.parameters())
    assert optimizer.param_groups[0]["lr"] == 0.01 / 4
    train(net, optimizer, method, range(3, 4))
    assert optimizer.state[net.words.weight]["step"] == 1


def test_reset_reaches_the_optimizer_inside_a_wrapper() -> None:
    class Wrapper:  # as Accelerate and Fabric have it
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    train(net, optimizer, SequentialReptile(net, Wrapper(optimizer), inner_steps=3), range(3))
    assert not optimizer.state


def test_kept_moments_carry_over() -> None:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    train(
        net,
        optimizer,
        MultiTaskReptile(net, tasks=2, inner_steps=3, optimizer_state="keep"),
        range(3),
        3,
    )
    assert optimizer.state[net.words.weight]["step"] == 3


def test_reset_is_of_recadam_s_moments_and_not_of_its_pretrained_weights() -> None:
    net = Net()
    start = weights_of(net)
    optimizer = RecAdam(net.parameters(), lr=1e-3, gamma=10.0)
    train(net, optimizer, SequentialReptile(net, optimizer, inner_steps=3), range(4))
    state = optimizer.state[net.words.weight]
    assert state["step"] == 1
    assert torch.equal(state["pretrained"], start["words.weight"])
    assert optimizer.param_groups[0]["t"] == 4


def test_a_trajectory_starts_from_the_weights_as_they_are_then() -> None:
    bowls = Bowls()
    method = Reptile(bowls, outer_lr=0.5)
    with torch.no_grad():
        bowls.x.fill_(2.0)  # e.g. a pretrained model loaded after the method was made
    phi = bowls.x.detach().clone()
    descend(bowls, method, ["a"] * 4)
    torch.testing.assert_close(bowls.x.detach(), phi + 0.5 * (bowls.after(phi, ["a"] * 4) - phi))


def test_a_parameter_unfrozen_in_the_middle_takes_part_from_then_on() -> None:
    net = Net()
    net.words.weight.requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    method = SequentialReptile(net, optimizer, inner_steps=4, outer_lr=0.5, optimizer_state="keep")
    start = net.words.weight.detach().clone()
    train(net, optimizer, method, range(2))
    net.words.weight.requires_grad_(True)
    train(net, optimizer, method, range(2, 3))
    moved = net.words.weight.detach() - start
    assert moved.norm() > 0
    with method.at_phi():
        assert torch.equal(net.words.weight, start)


@pytest.mark.parametrize("kind", [Sum, PCGrad])
def test_any_method_can_make_the_inner_gradient(kind: Any) -> None:
    bowls, twin = Bowls(), Bowls()
    losses = {task: partial(bowls.loss, task) for task in TASKS}
    report = Reptile(bowls, gradient=kind(bowls)).backward(losses)
    expected = kind(twin).backward({task: partial(twin.loss, task) for task in TASKS})
    assert torch.equal(bowls.x.grad, twin.x.grad)
    assert torch.equal(report.gram, expected.gram)


def test_a_lone_task_is_reported_without_its_norm() -> None:
    bowls = Bowls()
    losses = {"a": partial(bowls.loss, "a")}
    report = Reptile(bowls).backward(losses)
    assert report.tasks == ("a",)
    assert report.losses.item() == bowls.loss("a").item()
    assert report.norms.isnan().all()
    assert report.finite
    assert torch.equal(report.weights, torch.ones(1, dtype=torch.float64))
    by_sum = Reptile(bowls, gradient=Sum(bowls)).backward(losses)  # one task has nothing to compare
    assert by_sum.norms.isnan().all()
    assert by_sum.finite


def test_a_step_that_the_scaler_skips_leaves_the_weights() -> None:
    bowls = Bowls()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    optimizer = torch.optim.SGD(bowls.parameters(), lr=LR)
    method = Reptile(bowls, engine=scaler)
    start = bowls.x.detach().clone()
    report = method.backward({"a": lambda: bowls.loss("a") * float("inf")})
    scaler.step(optimizer)
    scaler.update()
    method.after_step()
    assert not report.finite
    assert torch.equal(bowls.x.detach(), start)


def test_failed_backward_keeps_gradients_and_state() -> None:
    bowls = Bowls()
    method = Reptile(bowls)
    descend(bowls, method, ["a"])
    before, state = bowls.x.grad, method.state_dict()
    with pytest.raises(ValueError, match="without a gradient"):
        method.backward({"a": lambda: torch.zeros(())})
    assert bowls.x.grad is before
    assert method.state_dict()["step"] == state["step"]
    with pytest.raises(RuntimeError, match="without backward"):
        method.after_step()


@pytest.mark.parametrize("when", [4, 5, 6, 7])
@pytest.mark.parametrize("kind", ALL)
def test_a_frozen_parameter_is_never_moved(kind: str, when: int) -> None:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    method = ALL[kind](net, optimizer, inner_steps=4)
    train(net, optimizer, method, range(when), inner=4)
    net.body.requires_grad_(False)
    with torch.no_grad():
        net.body[0].bias.fill_(5.0)  # set by the user
    body, others = weights_of(net.body), weights_of(net.heads)
    moments = {p: optimizer.state.get(p) for p in net.body.parameters()}
    for step in range(when, 14):
        train(net, optimizer, method, range(step, step + 1), inner=4)
        with method.at_phi():
            assert all(torch.equal(p, body[name]) for name, p in net.body.named_parameters())
    method.finish()
    assert all(torch.equal(p, body[name]) for name, p in net.body.named_parameters())
    assert all(optimizer.state.get(p) is moment for p, moment in moments.items())
    assert any(not torch.equal(p, others[name]) for name, p in net.heads.named_parameters())


@pytest.mark.parametrize("kind", ALL)
def test_a_parameter_frozen_before_finish_is_not_moved(kind: str) -> None:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    method = ALL[kind](net, optimizer, inner_steps=4)
    train(net, optimizer, method, range(6), inner=4)
    net.body.requires_grad_(False)
    body = weights_of(net.body)
    method.finish()
    assert all(torch.equal(p, body[name]) for name, p in net.body.named_parameters())


@pytest.mark.parametrize("kind", ALL)
def test_the_weights_come_back_when_a_block_at_phi_freezes_them(kind: str) -> None:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    method = ALL[kind](net, optimizer, inner_steps=4)
    start = weights_of(net)
    train(net, optimizer, method, range(3), inner=4)
    theta = weights_of(net)
    for first, second in ((True, False), (False, True)):
        net.body.requires_grad_(first)
        with method.at_phi():
            net.body.requires_grad_(second)
        assert all(torch.equal(p, theta[name]) for name, p in net.named_parameters())
    with method.at_phi():
        assert all(torch.equal(p, start[name]) for name, p in net.named_parameters())


@pytest.mark.parametrize("kind", ALL)
def test_heads_alone_may_be_trainable_for_a_while(kind: str) -> None:
    net = Net()
    for part in (net.words, net.body):
        part.requires_grad_(False)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    method = ALL[kind](net, optimizer, inner_steps=2, heads=["heads"])
    body = weights_of(net.body)
    train(net, optimizer, method, range(4), inner=2)
    method.finish()
    assert all(torch.equal(p, body[name]) for name, p in net.body.named_parameters())
    net.body.requires_grad_(True)
    train(net, optimizer, method, range(4, 8), inner=2)
    assert not torch.equal(net.body[0].weight, body["0.weight"])


def test_phi_is_held_for_the_trainable_parameters_in_their_order_and_its_memory_is_reused() -> None:
    net = Net()
    net.words.requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    method = SequentialReptile(net, optimizer, inner_steps=2)
    train(net, optimizer, method, range(3))
    held = {name: phi.data_ptr() for name, phi in method._phi.items()}
    net.words.requires_grad_(True)
    net.body.requires_grad_(False)
    for steps in (range(3, 4), range(4, 5)):  # in the middle, and at the next start
        train(net, optimizer, method, steps)
        names = [name for name, p in net.named_parameters() if p.requires_grad]
        if method.step:
            assert list(method._phi) == names
    assert all(method._phi[n].data_ptr() == held[n] for n in names if n in held)


@pytest.mark.parametrize("kind", ALL)
def test_the_type_of_the_weights_may_change_between_trajectories(kind: str) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    method = ALL[kind](net, optimizer, inner_steps=4, optimizer_state="keep")
    train(net, optimizer, method, range(4), inner=4)
    net.double()
    twin = copy.deepcopy(net)
    train(net, optimizer, method, range(4, 8), inner=4)
    assert all(phi.dtype == torch.float64 for phi in method._phi.values())
    if kind != "MultiTaskReptile":  # the twin has not seen the first of its two trajectories
        other = torch.optim.SGD(twin.parameters(), lr=0.1)
        fresh = ALL[kind](twin, other, inner_steps=4, optimizer_state="keep")
        train(twin, other, fresh, range(4, 8), inner=4)
        assert same(net, twin)


@pytest.mark.parametrize("kind", ALL)
def test_the_type_of_the_weights_may_not_change_inside_a_trajectory(kind: str) -> None:
    net, twin = Net(), Net()
    optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (net, twin))
    method = ALL[kind](net, optimizer, inner_steps=4, optimizer_state="keep")
    train(net, optimizer, method, range(2), inner=4)
    net.double()
    message = (
        r"^Parameter 'words.weight' was torch.float32 on cpu .* is torch.float64 on cpu now: .*\.$"
    )
    losses = {"a": partial(net.loss, "a", 2)}
    for call in (partial(method.backward, losses), method.finish, method.at_phi().__enter__):
        with pytest.raises(RuntimeError, match=message):
            call()
    net.float()  # nothing was lost by asking
    train(net, optimizer, method, range(2, 6), inner=4)
    train(twin, other, ALL[kind](twin, other, inner_steps=4, optimizer_state="keep"), range(6), 4)
    assert same(net, twin)


@pytest.mark.parametrize("stop", range(1, 13))
@pytest.mark.parametrize("kind", ALL)
def test_resume_anywhere_in_a_trajectory_is_bit_equal(kind: str, stop: int, tmp_path: Any) -> None:
    make = partial(ALL[kind], inner_steps=4)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    method = make(net, optimizer)
    train(net, optimizer, method, range(stop), inner=4)
    saved = {
        "net": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "method": method.state_dict(),
    }
    torch.save(saved, tmp_path / "run.pt")
    train(net, optimizer, method, range(stop, 17), inner=4)
    method.finish()

    again = Net()
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    second = torch.optim.AdamW(again.parameters(), lr=0.01)
    resumed = make(again, second)
    state = torch.load(tmp_path / "run.pt")
    resumed.load_state_dict(state["method"])
    again.load_state_dict(state["net"])
    second.load_state_dict(state["optimizer"])
    train(again, second, resumed, range(stop, 17), inner=4)
    resumed.finish()
    assert same(again, net)


def test_state_is_a_snapshot_and_small_between_trajectories() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    method = SequentialReptile(net, optimizer, inner_steps=3)
    train(net, optimizer, method, range(1))
    state = method.state_dict()
    kept = copy.deepcopy(state)
    train(net, optimizer, method, range(1, 5))
    assert all(torch.equal(state["phi"][name], kept["phi"][name]) for name in kept["phi"])
    train(net, optimizer, method, range(5, 6))
    assert method.state_dict()["phi"] == {}


def test_state_of_another_method_or_setting_is_refused() -> None:
    bowls, net = Bowls(), Net()
    method = Reptile(bowls)
    descend(bowls, method, ["a"])
    state = method.state_dict()
    with pytest.raises(ValueError, match="saved by 'Reptile', and this is 'FOMAML'"):
        FOMAML(bowls).load_state_dict(state)
    with pytest.raises(ValueError, match="saved by 'Reptile', and this is 'MultiTaskReptile'"):
        MultiTaskReptile(bowls, tasks=1, optimizer_state="keep").load_state_dict(state)
    with pytest.raises(ValueError, match="saved with inner_steps=4, and this method has inner_steps=5"):
        Reptile(bowls, inner_steps=5).load_state_dict(state)
    with pytest.raises(
        ValueError, match=r"`phi` holds 'x' of shape \(5,\), which is not in this model"
    ):
        Reptile(net).load_state_dict(state)


@pytest.mark.parametrize("value", [0, -1, 2.5, True, None])
def test_inner_steps_must_be_a_whole_number(value: Any) -> None:
    with pytest.raises(ValueError, match=r"`inner_steps` is .*: it must be a whole number >= 1"):
        Reptile(Bowls(), inner_steps=value)
    with pytest.raises(ValueError, match=r"`tasks` is .*: it must be a whole number >= 1"):
        MultiTaskReptile(Bowls(), tasks=value, optimizer_state="keep")


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, float("nan"), float("inf"), "0.1"])
def test_outer_lr_must_be_in_its_range(value: Any) -> None:
    with pytest.raises(ValueError, match=r"`outer_lr` is .*: it must be in \(0, 1\]"):
        Reptile(Bowls(), outer_lr=value)
    method = Reptile(Bowls())
    with pytest.raises(ValueError, match="`outer_lr` is"):
        method.outer_lr = value


def test_unknown_optimizer_state_is_named() -> None:
    with pytest.raises(ValueError, match="`optimizer_state` is 'persist': use 'reset' or 'keep'"):
        Reptile(Bowls(), optimizer_state="persist")


def test_reset_needs_the_model_s_optimizer() -> None:
    bowls = Bowls()
    with pytest.raises(ValueError, match="no `optimizer` was given: pass the optimizer"):
        SequentialReptile(bowls)
    with pytest.raises(ValueError, match="holds none of the model's parameters"):
        SequentialReptile(bowls, torch.optim.SGD(Bowls().parameters()))
    with pytest.raises(ValueError, match="Adagrad"):
        SequentialReptile(bowls, torch.optim.Adagrad(bowls.parameters()))
    with pytest.raises(TypeError, match="`optimizer` is of type int"):
        SequentialReptile(bowls, 3)


def test_what_is_no_optimizer_is_refused_also_where_its_state_is_kept() -> None:
    bowls = Bowls()
    for wrong in (1e-3, bowls, torch.optim.SGD):
        with pytest.raises(TypeError, match="`optimizer` is of type .*: pass a torch.optim.Optimizer"):
            SequentialReptile(bowls, wrong, optimizer_state="keep")


@pytest.mark.parametrize("kind", ALL)
def test_a_forgotten_after_step_is_warned_of_once(kind: str) -> None:
    bowls = Bowls()
    method = ALL[kind](bowls, optimizer_state="keep")
    losses = {"a": partial(bowls.loss, "a")}
    method.backward(losses)
    with pytest.warns(UserWarning, match=r"call after_step\(\)") as caught:
        method.backward(losses)
    assert caught[0].filename == __file__
    method.backward(losses)


@pytest.mark.parametrize("given", [{}, {"gradient": True}])
@pytest.mark.parametrize("kind", ALL)
def test_a_misspelt_option_is_named_with_the_class_and_its_options(
    kind: str, given: dict[str, Any]
) -> None:
    bowls = Bowls()
    given = {name: Sum(bowls) for name in given}
    message = f"^{kind} has no option 'innersteps': .*engine.* gradient.* heads.* inner_steps.*"
    with pytest.raises(TypeError, match=message):
        ALL[kind](bowls, torch.optim.SGD(bowls.parameters()), innersteps=2, **given)
    with pytest.raises(TypeError, match=f"^{kind} has no option 'measure': "):
        ALL[kind](bowls, optimizer_state="keep", measure=True)


def test_unknown_heads_are_named() -> None:
    with pytest.raises(ValueError, match="`heads` lists 'classifier', but no parameter has that name"):
        Reptile(Net(), heads=["classifier"])
    with pytest.raises(ValueError, match="`heads` names all 1 parameters"):
        Reptile(Bowls(), heads="x")


def test_options_of_a_given_gradient_belong_to_it() -> None:
    bowls = Bowls()
    with pytest.raises(TypeError, match="`gradient` was given together with reduction"):
        Reptile(bowls, gradient=Sum(bowls), reduction="mean")


def test_half_precision_weights_are_warned_of() -> None:
    net = Net().to(torch.bfloat16)
    method = Reptile(net, inner_steps=1)
    with pytest.warns(UserWarning, match=r"torch.bfloat16.*keep the weights in float32") as caught:
        method.backward({"a": partial(net.loss, "a", 0)})
    assert caught[0].filename == __file__
    method.after_step()
    method.outer_lr = 0.4
    method.backward({"a": partial(net.loss, "a", 0)})  # once
