"""`gradaccord validate`: every task is tried, nothing is left behind."""

import re

import pytest
from train_toy import said, shown_by

from gradaccord.train.time_left import evaluations


def test_validate_tries_every_task_and_estimates(capsys, written, tmp_path):
    before = set(tmp_path.iterdir())
    file = written(method="pcgrad", train={"steps": 100, "evaluate_every": 0.25})
    shown = shown_by(capsys, "validate", file)
    for task in ("film", "bank", "long"):
        assert f"{task}: a batch of 8x" in shown
    assert "Memory: weights" in shown
    card = shown[shown.index("film: classification\n") :]
    assert re.search(r"train +64 +64 +0 +0 +\d+/\d+/\d+ +0\.0%", card)
    assert "classes of train: no 50.0 %, yes 50.0 %" in card
    assert "as the model sees it: [CLS] " in card
    assert "long: regression\n" in card
    assert "100 steps of" in shown
    assert "300 batch gradients" in shown
    assert re.search(r"evaluation \(5 times on dev, \d+\.\d s each\)", shown)
    assert "of probes (4 times)" in shown
    assert set(tmp_path.iterdir()) == before | {file}  # nothing is left behind


@pytest.mark.parametrize("every", [0.25, 0.3, 0.01, 4, 5])
def test_evaluations_are_counted_as_a_run_does_them(every, configured, run):
    results = run(configured(train={"steps": 10, "evaluate_every": every}))
    assert evaluations(every, 10) == len(results.evaluations)


def test_the_estimate_grows_with_evaluation(capsys, written):
    """Twenty evaluations instead of one, of the same training."""

    def parts(every):
        shown = shown_by(capsys, "validate", written(train={"steps": 20, "evaluate_every": every}))
        found = re.search(r"evaluation \((\d+) times on dev, .*? of probes \((\d+) times", shown, re.S)
        return found[1], found[2]

    assert parts(20) == ("2", "1")
    assert parts(1) == ("21", "20")


def test_validate_answers_a_mistake_with_its_line(capsys, written):
    file = written()
    file.write_text(file.read_text().replace("batch_size: 8", "bach_size: 8"))
    line = file.read_text().splitlines().index("  bach_size: 8") + 1
    wrong = said(capsys, "validate", file)
    assert f"line {line}: train has no key 'bach_size': did you mean 'batch_size'?" in wrong
