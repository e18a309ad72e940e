"""Checkpoints and the best weights they refer to: damage is found, told, and gone round."""

from __future__ import annotations

import pytest
import torch

from gradaccord.meta.saved_states import lost_best, newest_with_best, read_best, read_states
from gradaccord.runs.checkpoints import CHECKPOINTS, Checkpoints, checksum
from gradaccord.runs.files import RunFolderError, write_tensors


def saved(folder, step, best):
    """A checkpoint that refers to the best weights of these iterations, which are written."""
    for iteration in best:
        write_tensors(folder / f"best-{iteration}.pt", {"w": torch.tensor(float(iteration))})
    sums = {iteration: checksum(folder / f"best-{iteration}.pt") for iteration in best}
    state = {"step": step, "best": [(50.0, iteration) for iteration in best], "best_sums": sums}
    Checkpoints(folder / CHECKPOINTS).save(step, state)
    return state


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_the_newest_comes_first_and_a_damaged_one_is_skipped_and_told(tmp_path):
    assert read_states(tmp_path, print) == {}
    saved(tmp_path, 2, [1])
    saved(tmp_path, 4, [1])
    said = []
    assert [state["step"] for state in read_states(tmp_path, said.append).values()] == [4, 2]
    assert not said
    older, newest = sorted((tmp_path / CHECKPOINTS).iterdir())
    damage(newest / "state-0.pt")
    assert [*read_states(tmp_path, said.append)] == [older.name]
    (sentence,) = said
    assert sentence.startswith(f"The checkpoint {newest.name} is skipped: ")
    damage(older / "state-0.pt")
    with pytest.raises(RunFolderError, match="No checkpoint of the run in .*: start again in a new"):
        read_states(tmp_path, said.append)


def test_the_one_checkpoint_of_release_0_1_is_read(tmp_path):
    torch.save({"step": 7}, tmp_path / "checkpoint.pt")
    assert read_states(tmp_path, print) == {"checkpoint.pt": {"step": 7}}
    saved(tmp_path, 9, [])
    assert [state["step"] for state in read_states(tmp_path, print).values()] == [9]


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_the_newest_whose_best_weights_are_intact_is_taken(tmp_path, how):
    saved(tmp_path, 2, [1])
    newest = saved(tmp_path, 4, [1, 3])
    states, said = read_states(tmp_path, print), []
    assert newest_with_best(tmp_path, states, said.append) == next(iter(states))
    assert not said
    path = tmp_path / "best-3.pt"
    damage(path) if how == "damaged" else path.unlink()
    assert [*lost_best(tmp_path, newest)] == [3]
    assert states[newest_with_best(tmp_path, states, said.append)]["step"] == 2
    assert how in said[0]
    with pytest.raises(RunFolderError, match=f"best-3.pt is {how}.*: continue with gradaccord fewshot"):
        read_best(tmp_path, 3, newest["best_sums"][3])
    (tmp_path / "best-1.pt").unlink()
    assert states[newest_with_best(tmp_path, states, said.append)]["step"] == 4
    assert "goes on from step-00000004 without its best weights of iteration 1, 3" in said[-1]


def test_best_weights_are_read_with_or_without_a_checksum(tmp_path):
    state = saved(tmp_path, 2, [1])
    for sum in (state["best_sums"][1], None):
        assert float(read_best(tmp_path, 1, sum)["w"]) == 1.0
    (tmp_path / "best-1.pt").write_bytes(b"")
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_best(tmp_path, 1, None)
