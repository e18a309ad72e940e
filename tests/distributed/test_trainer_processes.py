"""AlignedTrainer on two processes equals one process on the joined batch, and resumes exactly."""

from __future__ import annotations

import pytest
import torch
from trainer_scenarios import SCENARIOS, train
from trainer_toy import weights


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_processes_equal_one_on_the_joined_batch(launch, tmp_path, name):
    """Tags: every process has another number of items in every micro-batch."""
    alone = train(name, tmp_path, size=4)
    expected = weights(alone.model)
    length = torch.cat([value.flatten() for value in expected.values()]).norm()
    for rank in launch("trainer_worker.py"):
        found, losses = rank[name]
        apart = torch.cat([(found[n] - value).flatten() for n, value in expected.items()]).norm()
        assert float(apart / length) <= 1e-5
        assert losses == pytest.approx(
            [entry["loss"] for entry in alone.state.log_history if "loss" in entry], rel=1e-4
        )


def test_processes_hold_the_same_weights_to_the_last_bit(launch):
    first, second = launch("trainer_worker.py")
    for name in first:
        for key, value in first[name][0].items():
            assert torch.equal(value, second[name][0][key]), (name, key)


def test_resumed_on_two_processes_bit_equal(launch):
    for rank in launch("trainer_worker.py"):
        for key, value in rank["GradVac"][0].items():
            assert torch.equal(value, rank["resumed"][0][key]), key
