"""A loss or gradient that is not finite stops the run before it spoils the weights."""

import pytest
import torch
from train_toy import said

from gradaccord.runs.exceptions import TrainingError
from gradaccord.train.loop import TrainingLoop


def test_a_loss_that_is_not_finite_stops_with_task_step_and_examples(
    configured, run, tmp_path, monkeypatch
):
    from gradaccord.tasks.kinds.classification import Classification

    plain = Classification.loss

    def poisoned(self, output, batch):
        loss, items = plain(self, output, batch)
        return loss * (float("nan") if poisoned.calls > 40 else 1.0), items

    poisoned.calls = 0

    def counted(self, output, batch):
        poisoned.calls += 1
        return poisoned(self, output, batch)

    monkeypatch.setattr(Classification, "loss", counted)
    with pytest.raises(TrainingError) as caught:
        run(configured(train={"steps": 40, "save_every": 2}))
    assert "is not finite at step" in str(caught.value)
    assert "'film'" in str(caught.value) or "'bank'" in str(caught.value)
    assert "the checkpoint before is" in str(caught.value)
    assert list((tmp_path / "run" / "checkpoints").glob("step-*"))


def test_a_loss_that_explodes(written, tmp_path, capsys):
    file = written(train={"clip": None, "lr": 1e30, "optimizer": "sgd", "save_every": 1, "warmup": 0.0})
    wrong = said(capsys, "train", file, "--out", tmp_path / "run", code=1)
    assert "is not finite at step 2" in wrong
    assert "(examples " in wrong
    assert "the checkpoint before is " in wrong
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000001"]


@pytest.mark.parametrize(
    "method",
    ["reptile", "fomaml", "sequential_reptile", "multitask_reptile", "sequential", "sam", "sum"],
)
def test_no_step_is_taken_on_a_gradient_of_nan(method, configured, run, tmp_path, monkeypatch):
    """The losses are finite and nothing is clipped: only the gradient of the third step tells."""
    taken = TrainingLoop.take_step
    trained = []

    def step(loop, log):
        if loop.step == 2:
            trained.append(loop.model)
            weight = next(loop.model.trunk.parameters())
            weight.register_hook(lambda gradient: gradient * float("nan"))
        return taken(loop, log)

    monkeypatch.setattr(TrainingLoop, "take_step", step)
    config = configured(method=method, train={"clip": None, "save_every": 1})
    with pytest.raises(TrainingError, match="is not finite at step 3"):
        run(config)
    assert all(torch.isfinite(p).all() for p in trained[0].parameters())
    kept = [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()]
    assert max(kept) == "step-00000002"
