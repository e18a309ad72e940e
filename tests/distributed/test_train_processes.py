"""`gradaccord train` on two processes equals one process on the joined batch, and resumes exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from train_scenarios import BROKEN, METHODS, run
from train_toy import weights

SCRIPT = "train_worker.py"


@pytest.mark.parametrize("name", METHODS)
def test_two_processes_equal_one_on_the_joined_batch(launch, tmp_path, name):
    """Eight steps, three tasks, rows shared out between the processes."""
    two = launch(SCRIPT)
    toy = Path(two[0]["toy"])  # the same files: a tokenizer is not trained twice to the same vocabulary
    assert run(toy / f"{name}.json", tmp_path / "run") == 0
    expected = weights(tmp_path / "run")
    start = weights_of_start(toy, expected)
    moved = torch.cat([(expected[n] - value).flatten() for n, value in start.items()]).norm()
    assert float(moved) > 0.05  # of a length of 13
    for rank in two:
        found = rank["weights"][name]
        apart = torch.cat([(found[n] - value).flatten() for n, value in expected.items()]).norm()
        assert float(apart / moved) <= 1e-5


def weights_of_start(toy, names):
    """The trunk's pretrained weights, under the names that they have in the model."""
    start = load_file(toy / "model" / "model.safetensors")
    prefix = "trunk.model."
    return {n: start[n.removeprefix(prefix)] for n in names if n.removeprefix(prefix) in start}


def test_processes_hold_the_same_weights_to_the_last_bit(launch):
    first, second = launch(SCRIPT)
    for name in METHODS:
        for key, value in first["weights"][name].items():
            assert torch.equal(value, second["weights"][name][key]), (name, key)


def test_ctrl_c_in_one_process_saves_in_both_and_resumes_bit_equal(launch):
    for rank in launch(SCRIPT):
        assert rank["codes"]["interrupted"] == 130
        assert sorted(rank["saved"]) == ["step-00000004", "step-00000005"]
        assert rank["codes"]["resumed"] == 0
        for key, value in rank["weights"][BROKEN].items():
            assert torch.equal(value, rank["weights"]["resumed"][key]), key


def test_a_finished_run_is_read_and_not_overwritten_by_any_process(launch):
    for rank in launch(SCRIPT):
        assert rank["codes"]["finished"] == 0
        assert rank["codes"]["refused"] == 2
