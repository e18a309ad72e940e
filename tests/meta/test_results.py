"""Test results: one line for the single model, another for an ensemble; read as they were written."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gradaccord.meta.evaluation import Evaluation
from gradaccord.meta.results import FewShotResults

SINGLE = Evaluation(61.5, 0.8, (61.5,), (0.8,), 600, 5, False)


def made(**more) -> FewShotResults:
    return FewShotResults(
        single=SINGLE, curve=SINGLE, method="MAML", seed=3, iterations=100, training_seconds=1.5,
        best_iteration=40, **more,
    )  # fmt: skip


def test_an_ensemble_is_told_apart_from_the_single_model():
    single = str(made())
    assert single == f"test  {SINGLE}, best checkpoint by validation: iteration 40"
    lines = str(made(ensemble=replace(SINGLE, value=64.0, models=3))).splitlines()
    assert lines[0] == single
    assert "64.00 %" in lines[1]
    assert lines[1].endswith("not a single model, 3 x the cost")


def test_results_are_read_as_they_were_written(tmp_path):
    for results in (made(), made(ensemble=replace(SINGLE, models=3))):
        results.write(tmp_path)
        assert FewShotResults.read(tmp_path) == results
    content = json.loads((tmp_path / FewShotResults.FILE).read_text())
    content["single"]["by_step"] = []
    (tmp_path / FewShotResults.FILE).write_text(json.dumps(content))
    with pytest.raises(ValueError, match="is damaged .*`by_step` and `interval_by_step` differ"):
        FewShotResults.read(tmp_path)
