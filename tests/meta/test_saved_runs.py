"""Folders of runs: a seed's, or one with several; what has no run is refused."""

from __future__ import annotations

import pytest
import torch

from gradaccord.data.images.class_folders import ImageClasses
from gradaccord.data.images.class_parts import ClassSplits
from gradaccord.meta import Task
from gradaccord.meta.saved_runs import Trained, class_names, has_checkpoint, seed_folders
from gradaccord.meta.settings import settings_for
from gradaccord.runs.checkpoints import CHECKPOINTS, Checkpoints


def test_seeds_are_in_the_order_of_their_numbers(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run: it has no folder seed-0"):
        seed_folders(tmp_path)
    for seed in (0, 10, 2):
        (tmp_path / f"seed-{seed}" / CHECKPOINTS).mkdir(parents=True)
    assert [path.name for path in seed_folders(tmp_path)] == ["seed-0", "seed-2", "seed-10"]
    assert seed_folders(tmp_path / "seed-2") == [tmp_path / "seed-2"]


def test_a_run_of_release_0_1_has_a_checkpoint(tmp_path):
    assert not has_checkpoint(tmp_path)
    (tmp_path / "checkpoint.pt").touch()
    assert has_checkpoint(tmp_path)


def test_classes_are_named_by_label_whatever_the_order_of_examples():
    classes = ImageClasses(torch.zeros(6, 1, 2, 2), torch.tensor([0, 0, 1, 1, 2, 2]), ("a", "b", "c"))
    rows, labels = torch.tensor([5, 0, 4, 1]), torch.tensor([0, 1, 0, 1])
    assert class_names(classes, Task(rows, labels, rows, labels)) == ["c", "a"]


def test_a_folder_without_a_validated_run_is_refused(tmp_path):
    images = ImageClasses(torch.zeros(2, 1, 16, 16), torch.tensor([0, 1]), ("a", "b"))
    splits, settings = ClassSplits("own", images, images, images), settings_for("maml")
    with pytest.raises(FileNotFoundError, match="holds no run: it has no checkpoint"):
        Trained(tmp_path, splits, settings)
    Checkpoints(tmp_path / CHECKPOINTS).save(1, {"best": [], "seed": 0})
    with pytest.raises(ValueError, match="was never validated: train it a little longer"):
        Trained(tmp_path, splits, settings)
