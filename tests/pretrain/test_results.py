"""What pretraining found: every language counts equally, and the pace is that of steps."""

from __future__ import annotations

import json
import math

import pytest

from gradaccord.pretrain.results import HeldOut, PretrainProgress, PretrainResults


def made(**changes):
    evaluations = [
        HeldOut(step=i, tokens=100 * i, held_out={"de": 3.0 - i, "sw": 5.0 - i}, train={"de": 2.5})
        for i in (1, 2)
    ]
    given = {
        "finished": "now", "model": "bert", "weights": 10, "pieces": 260, "seed": 0, "steps": 2,
        "tokens": 200, "seconds": 4.0, "texts": {"de": 9, "sw": 1}, "left_out": {},
        "unigrams": {"de": 6.0, "sw": 7.0}, "evaluations": evaluations, "memory_mb": 1.0,
    }  # fmt: skip
    return PretrainResults(**(given | changes))


def test_the_last_evaluation_is_that_of_the_model():
    results = made()
    assert results.last.step == 2
    assert results.last.mean == 2.0  # though there are nine times as many German texts
    assert results.tokens_per_second == 50.0
    assert math.isnan(made(seconds=0.0).tokens_per_second)


def test_results_are_read_as_they_were_written(tmp_path):
    made().write(tmp_path)
    assert PretrainResults.read(tmp_path) == made()
    content = json.loads((tmp_path / PretrainResults.FILE).read_text())
    content["unigrams"]["de"] = "six"
    (tmp_path / PretrainResults.FILE).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"is damaged \(`unigrams.de`"):
        PretrainResults.read(tmp_path)


def test_the_share_of_a_run_that_has_not_begun_is_none():
    assert PretrainProgress().share == 0.0
    assert PretrainProgress(step=3, steps=4).share == 0.75
