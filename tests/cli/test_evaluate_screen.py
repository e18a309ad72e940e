"""What `evaluate` prints: scores with intervals, confusions and errors within 80 columns."""

from __future__ import annotations

from dataclasses import replace

from made_evaluation import made_evaluation
from printed import printed

from gradaccord.cli.evaluate_screen import MATRIX, PAIRS, shown
from gradaccord.tasks.error_analysis import Analysis, Confusion
from gradaccord.tasks.references import ONE_CLASS, Reference


def test_scores_stand_with_intervals_and_the_main_one_beside_its_references():
    text = printed(shown(made_evaluation(unlabelled=12)))
    assert "film (classification): 1,300 examples of dev.csv (12 more have no label)" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["accuracy", "97.40", "96.00", "to", "98.00", "50.00", "94.60"] in rows
    assert ["f1", "80.00", "70.00", "to", "90.00"] in rows
    assert ["no", "1,200", "30"] in rows
    assert "34 of 1,300 are wrong; the furthest off:" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "Warning" not in text


def test_a_model_without_skill_is_warned_of():
    text = printed(shown(made_evaluation(reference=Reference("dev.csv", 50.0, 97.4, ONE_CLASS))))
    assert f"Warning: {ONE_CLASS}." in text


def test_of_many_classes_the_most_frequent_confusions_are_listed():
    count = max(MATRIX + 1, 5)
    labels = tuple(f"class number {i} of many" for i in range(count))
    counts = tuple(tuple(10 * i + j for j in range(count)) for i in range(count))
    errors = Analysis(9, 3, (), Confusion(labels, counts))
    text = printed(shown(made_evaluation(errors=errors)))
    rows = [line for line in text.splitlines() if " of many" in line]
    assert [int(row.split()[0]) for row in rows] == sorted(
        (n for i, row in enumerate(counts) for j, n in enumerate(row) if i != j), reverse=True
    )[:PAIRS]
    assert text.rstrip().endswith("3 of 9 are wrong.")


def test_errors_that_have_no_size_are_not_called_the_furthest():
    found = made_evaluation()
    worst = replace(found.errors.worst[0], by=None, gold=0.123456, predicted="[bold]")
    text = printed(shown(made_evaluation(errors=replace(found.errors, worst=(worst,)))))
    assert "; some of them:" in text
    assert "0.1235" in text
    assert "[bold]" in text  # a text of the data is no markup
