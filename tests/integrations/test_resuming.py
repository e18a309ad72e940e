"""A resumed Trainer continues bit for bit."""

from __future__ import annotations

import pytest
from resumed_trainer import METHODS, run
from trainer_toy import assert_same, weights
from transformers import default_data_collator

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", METHODS)
def test_resumed_run_is_bit_equal(tmp_path, name):
    expected = run(tmp_path / "whole", METHODS[name])
    run(tmp_path / "broken", METHODS[name], stop=11)
    assert sorted(path.name for path in (tmp_path / "broken").iterdir())[-1] == "checkpoint-9"
    resumed = run(tmp_path / "broken", METHODS[name], resume=True)
    assert_same(weights(resumed.model), weights(expected.model))
    assert resumed.state.global_step == 17


def test_and_with_accumulation_from_an_end_of_an_epoch(tmp_path):
    """5 steps are a whole epoch of the smallest task."""
    options = METHODS["GradVac"]
    more = {"accumulation": 2, "per_device_train_batch_size": 2, "save_steps": 5}
    expected = run(tmp_path / "whole", options, **more)
    run(tmp_path / "broken", options, stop=7, **more)
    resumed = run(
        tmp_path / "broken", options, resume=str(tmp_path / "broken" / "checkpoint-5"), **more
    )
    assert_same(weights(resumed.model), weights(expected.model))


def test_data_loader_workers_read_ahead_and_resume_exactly(tmp_path):
    options = METHODS["two drawn tasks"] | {"data_collator": default_data_collator}
    expected = run(tmp_path / "whole", options, dataloader_num_workers=1)
    run(tmp_path / "broken", options, stop=11, dataloader_num_workers=1)
    resumed = run(tmp_path / "broken", options, resume=True)
    assert_same(weights(resumed.model), weights(expected.model))
