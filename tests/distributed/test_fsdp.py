"""Two FSDP2 processes (`fully_shard`) give what one process gives on the joined batch."""

from __future__ import annotations

from typing import Any

import pytest
import scenarios
import torch
from scenarios import FSDP_SCENARIOS, LAYERS, PCGRAD, Scenario


@pytest.fixture(scope="module")
def saw(launch: Any) -> list[dict[str, Any]]:
    """What each process saw."""
    return launch("fsdp_worker.py")


def assert_refused(saw: Any, name: str, *words: str) -> None:
    """Every process raised a ValueError with these words."""
    for of_rank in saw:
        kind, message = of_rank[name]
        assert kind == "ValueError"
        assert all(word in message for word in words), message


@pytest.mark.parametrize("name", FSDP_SCENARIOS)
def test_fsdp2_equals_joined_batch(name: str, saw: Any) -> None:
    runs = [of_rank[name] for of_rank in saw]
    scenarios.assert_equals_joined_batch(FSDP_SCENARIOS[name], runs)


@pytest.mark.parametrize("name", FSDP_SCENARIOS)
def test_method_state_is_the_same_on_every_process(name: str, saw: Any) -> None:
    first, second = (of_rank[name].state for of_rank in saw)
    assert scenarios.same(first, second)


@pytest.mark.parametrize("name", scenarios.FSDP_SKETCHES)
def test_sketches_of_shards(name: str, saw: Any) -> None:
    scenario = scenarios.FSDP_SKETCHES[name]
    first, second = (of_rank["sketches"][name] for of_rank in saw)
    assert scenarios.same(first.weights, second.weights)
    assert scenarios.same(first.state, second.state)
    torch.testing.assert_close(first.grams, second.grams, rtol=0, atol=0)
    if name.startswith("sum"):
        assert scenarios.error(first, scenarios.alone(scenario)) < 1e-12


def test_half_precision_of_shards(saw: Any) -> None:
    first, second = (of_rank["half"] for of_rank in saw)
    assert scenarios.same(first.weights, second.weights)
    assert scenarios.error(first, scenarios.alone(scenarios.HALF)) < 0.05


def test_deciding_by_features_is_refused(saw: Any) -> None:
    assert_refused(saw, "features", "`decide` is 'features'", "use DDP")


def test_hybrid_sharding_equals_joined_batch(saw: Any) -> None:
    joined = scenarios.alone(scenarios.HYBRID)
    for of_rank in saw:
        assert scenarios.error(of_rank["hybrid"], joined) < 1e-12
        torch.testing.assert_close(of_rank["hybrid"].losses, joined.losses, rtol=1e-12, atol=0)


def test_accelerate_over_fsdp2_equals_joined_batch(saw: Any) -> None:
    joined = scenarios.alone(scenarios.HYBRID)
    for of_rank in saw:
        assert scenarios.error(of_rank["Accelerate"], joined) < 1e-12


def test_ranks_stay_together_under_fsdp2(saw: Any) -> None:
    first, second = (of_rank["together"] for of_rank in saw)
    assert scenarios.same(first.weights, second.weights)
    assert scenarios.same(first.state, second.state)
    assert scenarios.error(first, scenarios.alone(scenarios.LONG, steps=30)) < 1e-3


def test_gradient_clipping_works_on_what_is_left_in_grad(saw: Any) -> None:
    joined = scenarios.alone(Scenario(PCGRAD), clip=0.1)
    assert min(joined.norms) > 0.1  # it was clipped
    for of_rank in saw:
        assert of_rank["clipped"].norms == pytest.approx(joined.norms, rel=1e-12)
        assert scenarios.error(of_rank["clipped"], joined) < 1e-12


def test_frozen_parameters_need_not_be_sharded(saw: Any) -> None:
    model = scenarios.net(Scenario(LAYERS))
    model.trunk[0].requires_grad_(False)
    joined = scenarios.train(Scenario(LAYERS), model, None)
    for of_rank in saw:
        assert scenarios.error(of_rank["frozen"], joined) < 1e-12


@pytest.mark.parametrize("name", ["other tasks", "other tasks, hybrid", "other tasks under all heads"])
def test_other_tasks_on_a_process_raise_on_all(name: str, saw: Any) -> None:
    assert_refused(saw, name, "'d'", "must bring the same tasks")


def test_other_numbers_of_micro_batches_raise_on_all(saw: Any) -> None:
    assert_refused(saw, "other micro-batches", "'b' (2)")


def test_other_numbers_of_shared_batches_raise_on_all(saw: Any) -> None:
    assert_refused(saw, "other calls", "'shared batch' (2)")


def test_process_without_tasks_raises_on_all(saw: Any) -> None:
    assert [of_rank["no task"][0] for of_rank in saw] == ["ProcessFailedError", "ValueError"]
    for of_rank in saw:
        assert "`losses` is empty" in of_rank["no task"][1]


def test_nan_on_one_process_raises_on_all_and_names_the_task(saw: Any) -> None:
    for of_rank in saw:
        assert of_rank["NaN"][0] == "LossNotFiniteError"
        assert "Task 'b' has the loss nan" in of_rank["NaN"][1]


def test_model_whose_root_is_not_sharded_is_refused(saw: Any) -> None:
    assert_refused(saw, "root not sharded", "'gain' is not sharded", "call fully_shard on the root")


def test_tensor_parallel_model_is_refused(saw: Any) -> None:
    assert_refused(saw, "tensor parallel", "without tensor parallelism")


def test_first_generation_of_fsdp_is_refused(saw: Any) -> None:
    assert_refused(saw, "FSDP1", "fully_shard")
