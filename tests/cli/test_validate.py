"""`gradaccord validate`: every task is tried, nothing is left behind."""

from train_toy import said, shown_by


def test_validate_tries_every_task_and_estimates(capsys, written, tmp_path):
    before = set(tmp_path.iterdir())
    file = written(method="pcgrad", train={"steps": 100})
    shown = shown_by(capsys, "validate", file)
    for task in ("film", "bank", "long"):
        assert f"{task}: a batch of 8x" in shown
    assert "Memory: weights" in shown
    assert "100 steps of" in shown
    assert "300 batch gradients" in shown
    assert set(tmp_path.iterdir()) == before | {file}  # nothing is left behind


def test_validate_answers_a_mistake_with_its_line(capsys, written):
    file = written()
    file.write_text(file.read_text().replace("batch_size: 8", "bach_size: 8"))
    line = file.read_text().splitlines().index("  bach_size: 8") + 1
    wrong = said(capsys, "validate", file)
    assert f"line {line}: train has no key 'bach_size': did you mean 'batch_size'?" in wrong
