"""What Ctrl-C leaves: the step it came after, or the last checkpoint before it."""

from __future__ import annotations

from gradaccord.runs.checkpoints import Checkpoints
from gradaccord.runs.exceptions import what_is_saved


def test_what_a_resumed_run_will_continue_from_is_said(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert what_is_saved(7, True, checkpoints) == "Saved at step 7."
    lost = "Stopped within a step, which is lost; "
    assert what_is_saved(7, False, checkpoints) == f"{lost}there is no checkpoint yet."
    for step in (3, 5):
        checkpoints.save(step, {"step": step})
    assert what_is_saved(7, False, checkpoints) == f"{lost}the last checkpoint is step-00000005."
