"""FSDP2 by `accelerate launch --use_fsdp`: the same runs as on one process, and a clear end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from train_scenarios import SHARDED, run
from trainer_scenarios import EVALUATED, SHARDED_SCENARIOS, train
from trainer_toy import weights
from transformers import AutoModel

SCRIPT = "sharded_worker.py"


def test_accelerate_does_not_take_up_fsdp_on_a_cpu(launch):
    """Once it does, `train` need not shard by itself, nor the Trainer's test tell it to."""
    assert {rank["Accelerate's words"] for rank in launch(SCRIPT)} == {"DistributedType.MULTI_CPU"}


def test_train_shards_by_the_launcher_s_options_alone_and_is_the_same_run(launch, tmp_path):
    """Weights, gradients and optimiser in halves; checkpoints and the saved model whole."""
    two = launch(SCRIPT)
    for rank in two:
        assert rank["codes"] == {"sharded": 0, "interrupted": 130, "resumed": 0}
        assert rank["part"] == pytest.approx([0.5] * 8, abs=0.02)
        for key, value in rank["weights"]["sharded"].items():
            assert torch.equal(value, rank["weights"]["again"][key]), key
    toy = Path(two[0]["toy"])
    assert run(toy / f"{SHARDED}.json", tmp_path / "run") == 0
    expected = AutoModel.from_pretrained(tmp_path / "run" / "model").state_dict()
    for key, value in AutoModel.from_pretrained(two[0]["model"]).state_dict().items():
        assert torch.allclose(value, expected[key], atol=1e-6), key


def test_a_loss_that_raises_on_one_process_ends_the_others_with_its_words(launch):
    code, said, seconds = launch(SCRIPT)[0]["failed"]
    assert code == 1
    assert said == (
        "gradaccord: Process 1 of 2 failed: ZeroDivisionError: division by zero This was in task "
        "'film'.\n"
    )
    assert seconds < 60


@pytest.mark.parametrize("name", SHARDED_SCENARIOS)
def test_aligned_trainer_sharded_equals_one_process_on_the_joined_batch(launch, tmp_path, name):
    alone = train(name, tmp_path, size=4, **EVALUATED)
    expected = weights(alone.model)
    length = torch.cat([value.flatten() for value in expected.values()]).norm()
    evaluated = [e["eval_a_loss"] for e in alone.state.log_history if "eval_a_loss" in e]
    for rank in launch(SCRIPT):
        found, losses, history = rank["trainer"][name]
        apart = torch.cat([(found[n] - value).flatten() for n, value in expected.items()]).norm()
        assert float(apart / length) <= 1e-5
        assert losses == pytest.approx(
            [entry["loss"] for entry in alone.state.log_history if "loss" in entry], rel=1e-4
        )
        assert evaluated
        seen = [e["eval_a_loss"] for e in history if "eval_a_loss" in e]
        assert seen == pytest.approx(evaluated, rel=1e-4)


@pytest.mark.parametrize("name", SHARDED_SCENARIOS)
def test_aligned_trainer_sharded_resumes_bit_equal(launch, name):
    for rank in launch(SCRIPT):
        found, again = rank["trainer"][name][0], rank["trainer"][f"{name}, resumed"][0]
        for key, value in found.items():
            assert torch.equal(value, again[key]), key
