"""Checkpoints are whole or absent, and damaged ones are found."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from gradaccord.runs.checkpoints import CheckpointError, Checkpoints, checksum, load
from gradaccord.runs.files import write_json


def test_the_newest_come_first_and_old_ones_go(tmp_path):
    kept = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        kept.save(step, {"step": step, "weights": torch.full((3,), float(step))})
    states = [state for _, state in kept.latest()]
    assert [state["step"] for state in states] == [3, 2]
    assert torch.equal(states[0]["weights"], torch.full((3,), 3.0))


def test_one_that_was_fallen_back_behind_does_not_outlive_the_new_ones(tmp_path):
    """Step 8 was damaged, the run went on from 4: what is saved at 6 is the newest there is."""
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(8, {"step": 8})
    kept.save(6, {"step": 6})
    assert [path.name for path in kept.all()] == ["step-00000006"]


def test_a_kill_while_an_old_one_is_removed_leaves_none_that_cannot_be_read(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(1, {"step": 1})
    remove = shutil.rmtree

    def killed(path, **options):
        if (Path(path) / "sums.json").exists() and "00000001" in str(path):
            (Path(path) / "sums.json").unlink()
            raise KeyboardInterrupt
        remove(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            kept.save(2, {"step": 2})
    assert all((path / "sums.json").exists() for path in kept.all())
    assert kept.newest()[1]["step"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_the_same_step_again_is_not_lost_if_writing_is_stopped(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(1, {"step": 1})
    replace = os.replace

    def stopped(source, target):
        if Path(source).suffix == ".tmp" and Path(target).name.startswith("step-"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        kept.save(1, {"step": 1})
    monkeypatch.undo()
    assert [state["step"] for _, state in Checkpoints(tmp_path, keep=1).latest()] == [1]
    kept.save(2, {"step": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_one_is_found_and_the_one_before_is_there(tmp_path, damage):
    kept = Checkpoints(tmp_path, keep=2)
    for step in (1, 2):
        kept.save(step, {"step": step})
    file = tmp_path / "step-00000002" / "state-0.pt"
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 255
        file.write_bytes(content)
    elif damage == "cut":
        file.write_bytes(content[:20])
    else:
        file.unlink()
    (_, newest), (_, before) = kept.latest()
    assert isinstance(newest, CheckpointError)
    assert before["step"] == 1


def test_a_write_that_fails_leaves_the_one_before(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path)
    kept.save(1, {"step": 1})

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        kept.save(2, {"step": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("run",))

    Checkpoints(tmp_path).save(1, {"step": Evil()})
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(tmp_path / "step-00000001")


def test_the_newest_that_can_be_read_is_given_and_skipped_ones_are_named(tmp_path):
    kept = Checkpoints(tmp_path, keep=2)
    assert kept.newest() is None
    for step in (1, 2):
        kept.save(step, {"step": step})
    (tmp_path / "step-00000002" / "state-0.pt").write_bytes(b"")
    said = []
    path, state = kept.newest(say=said.append)
    assert (path.name, state) == ("step-00000001", {"step": 1})
    assert len(said) == 1
    assert said[0].startswith("The checkpoint step-00000002 is skipped: ")


def test_a_malicious_checkpoint_runs_nothing(tmp_path):
    """Its checksum is right: whoever makes the file makes that, too."""
    kept = Checkpoints(tmp_path / "kept")
    path = kept.save(1, {"step": 1})
    ran = tmp_path / "ran"
    torch.save({"step": _Command(ran)}, path / "state-0.pt")
    write_json(path / "sums.json", {"state-0.pt": checksum(path / "state-0.pt")})
    with pytest.raises(CheckpointError):
        load(path)
    assert not ran.exists()
    torch.load(path / "state-0.pt", weights_only=False)
    assert ran.exists()  # so it would have


class _Command:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_an_emptied_checksum_file_is_a_damaged_one(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.save(1, {"step": 1})
    for content in ("{}", "[]", "null", ""):
        (tmp_path / "step-00000001" / "sums.json").write_text(content)
        with pytest.raises(CheckpointError):
            load(tmp_path / "step-00000001")


def test_a_full_disk_at_the_first_one_names_file_and_remedy_and_no_one_before(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError) as raised:
        Checkpoints(tmp_path).save(1, {"step": 1})
    assert str(raised.value) == (
        f"The checkpoint {tmp_path / 'step-00000001'} cannot be written (No space left on device): "
        "make room and continue with --resume."
    )


def test_what_a_kill_left_beside_the_newest_goes_when_the_run_goes_on(tmp_path, monkeypatch):
    """Killed between the writing of one and the removal of the one before."""
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(1, {"step": 1})
    with monkeypatch.context() as killed:
        killed.setattr(Checkpoints, "prune", lambda self: None)
        kept.save(2, {"step": 2})
    assert len(kept.all()) == 2
    found = kept.newest()
    assert found is not None
    assert kept.all() == [found[0]] == [kept.of(2)]


@pytest.mark.parametrize("moved", [1, 2])
def test_a_kill_while_one_is_replaced_leaves_the_old_or_the_new_and_nothing_beside(
    tmp_path, monkeypatch, moved
):
    """moved: how many folders were renamed before the kill, which no `finally` survives."""
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(1, {"try": 1})
    replace, done = os.replace, []

    def killed(source, target):
        if Path(source).is_dir():
            if len(done) == moved:
                raise SystemExit
            done.append(source)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        patched.setattr(shutil, "rmtree", lambda *given, **options: None)
        patched.setattr(Checkpoints, "prune", lambda self: None)
        with suppress(SystemExit):
            kept.save(1, {"try": 2})
    assert len(list(tmp_path.iterdir())) == 2
    assert kept.newest()[1] == {"try": moved}
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_but_not_while_the_newest_cannot_be_read(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path, keep=1)
    kept.save(1, {"step": 1})
    with monkeypatch.context() as killed:
        killed.setattr(Checkpoints, "prune", lambda self: None)
        (kept.save(2, {"step": 2}) / "state-0.pt").write_bytes(b"no")
    found = kept.newest()
    assert found is not None
    assert found[0] == kept.of(1)
