"""Two DDP processes give what one process gives on the joined batch, and fail together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import scenarios
import torch
from scenarios import DDP_SCENARIOS, PCGRAD, Scenario


@pytest.fixture(scope="module")
def saw(launch: Any) -> list[dict[str, Any]]:
    """What each process saw."""
    return launch("ddp_worker.py")


@pytest.mark.parametrize("name", DDP_SCENARIOS)
def test_ddp_equals_joined_batch(name: str, saw: Any) -> None:
    runs = [of_rank[name] for of_rank in saw]
    scenarios.assert_equals_joined_batch(DDP_SCENARIOS[name], runs)


@pytest.mark.parametrize("name", [name for name in DDP_SCENARIOS if name != "Sum"])
def test_scenarios_are_ones_where_the_method_matters(name: str) -> None:
    scenario = DDP_SCENARIOS[name]
    plain = replace(scenario, method=scenarios.SUM)
    assert scenarios.error(scenarios.alone(scenario), scenarios.alone(plain)) > 0.01


@pytest.mark.parametrize("name", DDP_SCENARIOS)
def test_method_state_is_the_same_on_every_process(name: str, saw: Any) -> None:
    first, second = (of_rank[name].state for of_rank in saw)
    assert scenarios.same(first, second)
    assert "generator" in first


def test_ranks_stay_together_under_ddp(saw: Any) -> None:
    first, second = (of_rank["together"] for of_rank in saw)
    assert scenarios.same(first.weights, second.weights)
    assert scenarios.same(first.state, second.state)
    assert scenarios.distance(first.weights, first.start) > 1


def test_combining_on_each_process_first_would_be_wrong(saw: Any) -> None:
    scenario = Scenario(PCGRAD)
    joined = scenarios.alone(scenario, steps=1).gradient
    own = [scenarios.train(scenario, scenarios.net(scenario), rank, steps=1) for rank in (0, 1)]
    averaged = {name: (own[0].gradient[name] + own[1].gradient[name]) / 2 for name in joined}
    length = scenarios.distance(joined, {name: torch.zeros(()) for name in joined})
    assert scenarios.distance(averaged, joined) > 0.01 * length
    for of_rank in saw:
        assert scenarios.distance(of_rank["one step"].gradient, joined) < 1e-12 * length


def test_heads_keep_their_own_gradient_under_ddp(saw: Any) -> None:
    scenario = Scenario(PCGRAD)
    model = scenarios.net(scenario)
    for task in scenarios.TASKS:
        head = model.heads[task].weight
        (expected,) = torch.autograd.grad(scenarios.losses(scenario, model, 0, None)[task][0](), [head])
        for of_rank in saw:
            got = of_rank["one step"].gradient[f"heads.{task}.weight"]
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=0)


def test_running_statistics_are_the_first_process_s_as_under_plain_ddp(saw: Any) -> None:
    model = scenarios.net(scenarios.NORM)
    for calls in scenarios.losses(scenarios.NORM, model, 0, 0).values():
        calls[0]()
    for of_rank in saw:
        for name, buffer in model.named_buffers():
            torch.testing.assert_close(of_rank["running statistics"].weights[name], buffer)
    assert scenarios.same(*(of_rank["running statistics"].weights for of_rank in saw))


def test_running_statistics_that_ddp_does_not_send_round_stay_each_process_s_own(saw: Any) -> None:
    for rank, of_rank in enumerate(saw):
        model = scenarios.net(scenarios.OWN_STATISTICS)
        for calls in scenarios.losses(scenarios.OWN_STATISTICS, model, 0, rank).values():
            calls[0]()
        for name, buffer in model.named_buffers():
            torch.testing.assert_close(of_rank["own statistics"].weights[name], buffer)


def test_a_gradient_is_sent_while_the_next_task_runs(saw: Any) -> None:
    steps = [f"{what} {task}" for task in scenarios.TASKS for what in ("run", "send")]
    for of_rank in saw:
        assert of_rank["order"] == ["run a", "run b", "run c", "second step", *steps]


def test_when_a_gradient_is_sent_does_not_show_in_the_last_bit(saw: Any) -> None:
    for of_rank in saw:
        assert scenarios.same(of_rank["early"].weights, of_rank["late"].weights)
        assert scenarios.distance(of_rank["early"].weights, of_rank["early"].start) > 0.1


def test_tasks_and_what_they_reach_may_change_from_step_to_step(saw: Any) -> None:
    joined = scenarios.varying_gradients(scenarios.net(Scenario(PCGRAD)), None)
    for of_rank in saw:
        for step, (found, expected) in enumerate(zip(of_rank["varying"], joined, strict=True)):
            assert found.keys() == expected.keys(), (
                step
            )  # no zeros where no process reaches a parameter
            assert scenarios.distance(found, expected) < 1e-12, step


@pytest.mark.parametrize("when", ["failures", "failures later"])
@pytest.mark.parametrize("kind", scenarios.FAILURES)
def test_failure_on_one_process_raises_on_all_and_changes_nothing(
    kind: str, when: str, saw: Any
) -> None:
    seen = [of_rank[when][kind] for of_rank in saw]
    for each in seen:
        assert each["raised"] is not None
        assert each["kept"]
    messages = [" ".join([message, *notes]) for _, message, notes in (s["raised"] for s in seen)]
    if kind == "has no task at all":
        assert "`losses` is empty" in messages[0]
        assert "`losses` is empty" in messages[1]
    else:
        assert "task 'b'" in messages[0].lower()
        assert "task 'b'" in messages[1].lower()
    if "NaN" not in kind:  # which comes to light in the joined loss
        assert messages[0].startswith("Process 1 of 2 failed: ")
    if "raises" in kind:  # the user's own exception, where it was raised
        assert seen[1]["raised"][0] == "ZeroDivisionError"


@pytest.mark.parametrize("when", ["failures", "failures later"])
@pytest.mark.parametrize("kind", scenarios.FAILURES)
def test_processes_are_in_step_after_a_failure(kind: str, when: str, saw: Any) -> None:
    first, second = (of_rank[when][kind]["afterwards"] for of_rank in saw)
    assert scenarios.same(first.weights, second.weights)
    assert scenarios.same(first.state, second.state)


@pytest.mark.parametrize("at", ["forward", "backward"])
def test_a_failure_in_one_pass_over_all_heads_raises_on_all(at: str, saw: Any) -> None:
    first, second = (of_rank["failures of one pass"][at] for of_rank in saw)
    assert first["raised"][0] == "ProcessFailedError"
    assert first["raised"][1].startswith("Process 1 of 2 failed: ZeroDivisionError")
    assert second["raised"][0] == "ZeroDivisionError"
    assert first["kept"]
    assert second["kept"]
    assert scenarios.same(first["afterwards"].weights, second["afterwards"].weights)
    assert scenarios.same(first["afterwards"].state, second["afterwards"].state)


def test_half_precision_is_the_same_on_every_process_and_near_the_joined_batch(saw: Any) -> None:
    first, second = (of_rank["half"] for of_rank in saw)
    assert scenarios.same(first.weights, second.weights)
    assert scenarios.error(first, scenarios.alone(scenarios.HALF)) < 0.05


def test_a_loss_that_differs_in_the_second_pass_of_one_process_raises_on_all(saw: Any) -> None:
    first, second = (of_rank["failure of a second pass"] for of_rank in saw)
    assert first["raised"][0] == "ProcessFailedError"
    assert first["raised"][1].startswith("Process 1 of 2 failed: ValueError: Task 'b' gave the loss")
    assert second["raised"][0] == "ValueError"
    assert first["kept"]
    assert second["kept"]
    assert scenarios.same(first["afterwards"].weights, second["afterwards"].weights)
    assert scenarios.same(first["afterwards"].state, second["afterwards"].state)


def test_features_of_other_heads_on_a_process_raise_on_all(saw: Any) -> None:
    for of_rank in saw:
        assert of_rank["other heads"][0] == "ValueError"
        assert "every process must bring the same ones" in of_rank["other heads"][1]


def test_overflow_on_one_process_makes_the_scaler_skip_the_step_on_all(saw: Any) -> None:
    scenario = scenarios.SCALED
    joined = scenarios.train_with_bad_step(scenario, scenarios.net(scenario), None)
    for seen in (of_rank["scaler"] for of_rank in saw):
        assert [scale for _, scale, _ in seen["steps"]] == [1024.0] + 4 * [512.0]
        assert [finite for *_, finite in seen["steps"]] == [True, False, True, True, True]
        assert scenarios.same(seen["weights"][0], seen["weights"][1])
        assert scenarios.same(seen["steps"][0][0], seen["steps"][1][0])  # the method's state
        travelled = scenarios.distance(joined["weights"][-1], joined["start"])
        assert scenarios.distance(seen["weights"][-1], joined["weights"][-1]) < 1e-5 * travelled


@pytest.mark.parametrize("name", ["Accelerate", "Fabric"])
def test_frameworks_under_ddp_equal_joined_batch(name: str, saw: Any) -> None:
    joined = scenarios.alone(scenarios.WRAPPED)
    for of_rank in saw:
        assert scenarios.error(of_rank[name], joined) < 1e-12


def test_parameters_alone_need_the_engine_of_the_replica(saw: Any) -> None:
    joined = scenarios.alone(Scenario(PCGRAD))
    for of_rank in saw:
        assert scenarios.error(of_rank["parameters alone"], joined) < 1e-12


def test_method_on_the_module_inside_ddp_warns(saw: Any) -> None:
    for of_rank in saw:
        (message,) = of_rank["warning"]
        assert "2 processes run" in message
