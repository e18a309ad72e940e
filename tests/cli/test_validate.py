"""`gradaccord validate`: every task is tried, nothing is left behind."""

import re

from train_toy import said, shown_by


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


def test_validate_answers_a_mistake_with_its_line(capsys, written):
    file = written()
    file.write_text(file.read_text().replace("batch_size: 8", "bach_size: 8"))
    line = file.read_text().splitlines().index("  bach_size: 8") + 1
    wrong = said(capsys, "validate", file)
    assert f"line {line}: train has no key 'bach_size': did you mean 'batch_size'?" in wrong
