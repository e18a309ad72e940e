"""A model with its tasks in a folder: options, columns of own files, and outputs come back."""

from __future__ import annotations

import torch

from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.saving import saved_tasks
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks.kinds.image import ImageClassification
from gradaccord.tasks.saved_models import load, save


def test_tasks_come_back_with_their_options_files_and_heads(tmp_path):
    trunk, tokens = load_trunk("conv4", filters=2)
    tasks = {"clothes": ImageClassification(("a", "b")), "fur": ImageClassification(("x", "y", "z"))}
    model = MultiTaskModel(trunk, {name: task.new_head(trunk) for name, task in tasks.items()})
    save(tmp_path / "saved", model, tokens, tasks, {"fur": {"columns": {"first": "text"}}})
    again, _, found = load(tmp_path / "saved")
    assert found == tasks
    entries = saved_tasks(tmp_path / "saved")
    assert entries["fur"].own_files["columns"] == {"first": "text"}
    assert not entries["clothes"].own_files["columns"]
    for one, other in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert one[0] == other[0]
        assert torch.equal(one[1], other[1])
