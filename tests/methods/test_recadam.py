"""RecAdam: an independent reference, Adam at lambda = 1, no motion at lambda = 0, exact resume."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from gradaccord.methods.regularize.recadam import RecAdam


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def run(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (model(x) - 1).pow(2).mean().backward()
        optimizer.step()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def reference(
    theta: float, gradients: list[float], share: Any, *, lr: float, gamma: float, decay: float
) -> list[float]:
    """RecAdam on one weight that pulls to where it began, in plain Python."""
    start, m, v, path = theta, 0.0, 0.0, []
    for t, g in enumerate(gradients, start=1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        task = share(t)
        theta = theta * (1 - lr * decay)
        theta -= lr * task * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
        theta -= lr * (1 - task) * gamma * (theta - start)
        path.append(theta)
    return path


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(
    ("anneal", "share"),
    [
        ("sigmoid", lambda t: 1 / (1 + math.exp(-0.4 * (t - 20)))),
        ("linear", lambda t: min(1.0, t / 20)),
        ("constant", lambda t: 0.3),
    ],
)
def test_equals_a_plain_python_reference(anneal: str, share: Any, decay: float) -> None:
    gradients = torch.randn(60, generator=torch.Generator().manual_seed(1)).double().tolist()
    weight = nn.Parameter(torch.tensor([0.7], dtype=torch.float64))
    optimizer = RecAdam(
        [weight], lr=0.01, gamma=40.0, weight_decay=decay, anneal=anneal, k=0.4, t0=20, constant=0.3
    )
    path = []
    for g in gradients:
        weight.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
        path.append(weight.item())
    expected = reference(0.7, gradients, share, lr=0.01, gamma=40.0, decay=decay)
    assert path == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(
    "options", [{"anneal": "constant", "constant": 1.0}, {"t0": -200.0}, {"new": True}]
)
def test_is_adam_at_lambda_one(options: dict[str, Any], decay: float) -> None:
    model, twin = net(), net()
    run(
        model,
        RecAdam(model.parameters(), lr=0.02, gamma=10.0, weight_decay=decay, **options),
        range(30),
    )
    run(twin, torch.optim.AdamW(twin.parameters(), lr=0.02, weight_decay=decay, fused=True), range(30))
    torch.testing.assert_close(flat(model), flat(twin), rtol=0, atol=0)
    if not decay:
        twin = net()
        run(twin, torch.optim.Adam(twin.parameters(), lr=0.02), range(30))
        torch.testing.assert_close(flat(model), flat(twin), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("options", [{"anneal": "constant", "constant": 0.0}, {"t0": 1e6}])
def test_stays_at_the_pretrained_weights_at_lambda_zero(options: dict[str, Any]) -> None:
    model = net()
    start = flat(model)
    run(model, RecAdam(model.parameters(), lr=1e-3, gamma=500.0, **options), range(30))
    assert torch.equal(flat(model), start)


def test_given_pretrained_weights_are_returned_to() -> None:
    model, pretrained = net(), net(seed=1)
    optimizer = RecAdam(
        model.parameters(),
        lr=1e-3,
        gamma=500.0,
        anneal="constant",
        constant=0.0,
        pretrained=list(pretrained.parameters()),
    )
    gap = flat(model) - flat(pretrained)
    run(model, optimizer, range(20))
    torch.testing.assert_close(flat(model) - flat(pretrained), gap * 0.5**20, rtol=1e-6, atol=1e-15)
    with torch.no_grad():
        for parameter in pretrained.parameters():
            parameter.zero_()  # it was copied
    assert all(state["pretrained"].abs().sum() > 0 for state in optimizer.state.values())


def test_new_heads_are_plain_adam_beside_a_pulled_encoder() -> None:
    model, twin = net(), net()
    start = [p.detach().clone() for p in model[0].parameters()]
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "new": True}]
    run(model, RecAdam(groups, lr=1e-3, gamma=900.0, t0=1e6), range(20))
    for parameter in twin[0].parameters():
        parameter.requires_grad_(False)
    run(twin, torch.optim.AdamW(twin[2].parameters(), lr=1e-3, weight_decay=0, fused=True), range(20))
    assert all(torch.equal(p, q) for p, q in zip(model[0].parameters(), start, strict=True))
    assert torch.equal(flat(model[2]), flat(twin[2]))


def test_decay_acts_at_the_raw_rate_when_the_task_has_no_share() -> None:
    model = net()
    start = flat(model)
    options: dict[str, Any] = {"gamma": 0.0, "weight_decay": 0.1, "anneal": "constant", "constant": 0.0}
    run(model, RecAdam(model.parameters(), lr=0.01, **options), range(5))
    torch.testing.assert_close(flat(model), start * (1 - 0.001) ** 5)


def test_a_parameter_that_joins_late_has_its_own_bias_correction() -> None:
    late, always = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = RecAdam([late, always], lr=0.01, new=True)
    for step in range(10):
        always.grad = torch.ones(1)
        late.grad = torch.ones(1) if step == 9 else None
        optimizer.step()
    assert late.item() == pytest.approx(0.99, abs=1e-6)


@pytest.mark.parametrize("t0", [-1e5, 1e5])
def test_sigmoid_is_safe_far_from_its_middle(t0: float) -> None:
    model = net()
    run(model, RecAdam(model.parameters(), lr=1e-3, gamma=500.0, k=1.0, t0=t0), range(3))
    assert flat(model).isfinite().all()


def test_pull_that_would_diverge_is_refused_before_any_weight_moves() -> None:
    model = net()
    start = flat(model)
    optimizer = RecAdam(model.parameters(), lr=1e-3)
    with pytest.raises(ValueError, match=r"lr=0.001 times gamma=5000 .* use gamma < 1e\+03"):
        run(model, optimizer, range(1))
    assert torch.equal(flat(model), start)
    assert optimizer.param_groups[0]["t"] == 0
    optimizer.param_groups[0]["lr"] = 1e-4  # e.g. by a warm-up
    run(model, optimizer, range(1))


@pytest.mark.parametrize("stop", [1, 7, 19, 33])
def test_resume_is_bit_equal(stop: int, tmp_path: Any) -> None:
    def groups(model: Any) -> list[dict[str, Any]]:
        return [{"params": model[0].parameters()}, {"params": model[2].parameters(), "new": True}]

    options: dict[str, Any] = {"lr": 0.01, "gamma": 20.0, "t0": 20, "weight_decay": 0.01}
    model = net()
    optimizer = RecAdam(groups(model), **options)
    run(model, optimizer, range(stop))
    torch.save([model.state_dict(), optimizer.state_dict()], tmp_path / "run.pt")
    run(model, optimizer, range(stop, 40))

    again = net(seed=5)
    weights, state = torch.load(tmp_path / "run.pt")
    again.load_state_dict(weights)
    second = RecAdam(groups(again), **options)
    second.load_state_dict(state)
    run(again, second, range(stop, 40))
    assert torch.equal(flat(again), flat(model))


def test_schedulers_and_closures_work() -> None:
    model = net()
    optimizer = RecAdam(model.parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)

    def closure() -> float:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 3, dtype=torch.float64)).pow(2).mean()
        loss.backward()
        return loss.item()

    for _ in range(3):
        assert optimizer.step(closure) > 0
        schedule.step()


def test_named_parameters_and_late_groups_are_taken() -> None:
    model = net()
    optimizer = RecAdam(model[0].named_parameters(), lr=1e-4)
    optimizer.add_param_group({"params": list(model[2].named_parameters()), "gamma": 7.0})
    run(model, optimizer, range(2))
    assert set(optimizer.state) == set(model.parameters())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "`lr` is -1.0: it must be a finite number >= 0"),
        ({"gamma": float("nan")}, "`gamma` is nan"),
        ({"eps": float("inf")}, "`eps` is inf"),
        ({"weight_decay": -0.1}, "`weight_decay` is -0.1"),
        ({"betas": (0.9, 1.0)}, r"`betas` is \(0.9, 1.0\): it must be two numbers in \[0, 1\)"),
        ({"anneal": "cosine"}, "`anneal` is 'cosine': use 'sigmoid', 'linear' or 'constant'"),
        ({"k": 0.0}, "`k` is 0.0: it must be a finite number > 0"),
        ({"t0": 0, "anneal": "linear"}, "`t0` is 0: it must be a finite number of steps > 0"),
        ({"constant": 1.1}, r"`constant` is 1.1: lambda must be in \[0, 1\]"),
        ({"pretrained": [torch.zeros(2)]}, "`pretrained` has 1 tensors for 4 parameters: give one"),
        ({"pretrained": [torch.zeros(2)] * 4}, r"`pretrained`\[0\] has shape \(2,\) and its parameter"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RecAdam(net().parameters(), **options)


def test_bad_tensors_and_states_are_named() -> None:
    with pytest.raises(TypeError, match="complex64: use real floating point"):
        RecAdam([nn.Parameter(torch.zeros(2, dtype=torch.complex64))])
    model = net()
    state = torch.optim.AdamW(model.parameters()).state_dict()
    with pytest.raises(ValueError, match="not saved by RecAdam and holds no pretrained weights"):
        RecAdam(model.parameters()).load_state_dict(state)
    table = nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="build its embedding with sparse=False"):
        RecAdam(table.parameters()).step()
