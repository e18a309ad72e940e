"""Scores on a file, as JSON or as a table; of a path that is neither nothing is written."""

from __future__ import annotations

import csv

import pytest
from made_evaluation import made_evaluation

from gradaccord.train.file_evaluation import FileEvaluation


def test_json_holds_everything(tmp_path):
    found = made_evaluation(unlabelled=3)
    found.save(tmp_path / "out.JSON")
    assert FileEvaluation.read_file(tmp_path / "out.JSON") == found


def test_a_table_has_a_row_a_metric_and_references_of_the_main_one(tmp_path):
    made_evaluation().save(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["metric", "percent", "low", "high", "chance", "majority"],
            ["accuracy", "97.4", "96.0", "98.0", "50.0", "94.6"],
            ["f1", "80.0", "70.0", "90.0", "", ""],
        ]


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(ValueError, match="out.txt: give a file that ends in .json or .csv"):
        made_evaluation().save(tmp_path / "out.txt")
    assert not any(tmp_path.iterdir())
