"""The method's file in a Trainer's checkpoint."""

from __future__ import annotations

import pytest
import torch
from resumed_trainer import METHODS, run

import gradaccord

pytestmark = pytest.mark.usefixtures("one_thread")


def test_checkpoint_is_read_without_pickle_and_must_fit(tmp_path):
    options = METHODS["GradVac"]
    run(tmp_path, options, stop=5)
    folder = tmp_path / "checkpoint-3"
    torch.load(folder / "gradaccord.pt", weights_only=True)
    with pytest.raises(ValueError, match="saved with batch_size=4, and here it is 8: the position"):
        run(tmp_path, options, resume=str(folder), per_device_train_batch_size=8)
    with pytest.raises(ValueError, match="saved by 'GradVac', and this is 'PCGrad'"):
        run(tmp_path, METHODS["PCGrad"], resume=str(folder))
    with pytest.raises(ValueError, match="give the same `regularize`"):
        run(tmp_path, options | {"regularize": gradaccord.SMART}, resume=str(folder))
    (folder / "gradaccord.pt").unlink()
    with pytest.raises(ValueError, match="has no gradaccord.pt: it was saved by another trainer"):
        run(tmp_path, options, resume=str(folder))
