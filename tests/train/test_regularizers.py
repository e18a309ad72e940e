"""Regularisers train and resume bit-equal."""

import pytest
from train_toy import same, weights


@pytest.mark.parametrize("term", ["smart", "swep"])
def test_regularisers_train_and_resume_bit_equal(term, configured, run, tmp_path, interrupted):
    config = configured(regularize=[term], method="pcgrad", train={"steps": 6, "save_every": 3})
    run(config, "whole")
    interrupted(config, "broken", after=4)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))
