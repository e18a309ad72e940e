"""The log is cut back to the checkpoint that a run continues from."""

from pathlib import Path

import pytest

from gradaccord.runs.files import RunFolderError
from gradaccord.runs.log import Log, StepRecord, cut_to_size, cut_to_step, read_log, tail


def test_a_log_is_cut_back_to_the_checkpoint(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path)
    for step in range(1, 6):
        log.write(event="step", step=step)
    log.close()
    with path.open("a") as file:
        file.write('{"event": "st')  # a kill in the middle of a line
    cut_to_step(path, 3)
    log = Log(path, append=True)
    log.write(event="step", step=4)
    log.close()
    assert [record["step"] for record in read_log(path)] == [1, 2, 3, 4]


def test_a_log_is_cut_back_to_its_size_at_a_checkpoint(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path)
    log.write(iteration=1, text="ä")
    size = log.size()
    log.write(iteration=1)
    log.close()
    cut_to_size(path, size)
    log = Log(path, append=True)
    assert log.size() == size
    log.close()
    assert read_log(path) == [{"iteration": 1, "text": "ä"}]


def test_a_broken_line_is_skipped_with_a_note_and_the_later_ones_stay(tmp_path):
    """A disk that failed left zeros, half a record, no UTF-8, a bare number, brackets alone."""
    path = tmp_path / "log.jsonl"
    broken = [b"\0\0\0", b'{"event": "st', b'{"a": "\xff"}', b"3", b"[" * 100_000]
    lines = [b'{"step": 1}', *broken, b'{"step": 2}', b'{"step": 3']  # the last: cut off by a kill
    path.write_bytes(b"\n".join(lines))
    said = []
    assert [record["step"] for record in read_log(path, said.append)] == [1, 2]
    assert said == [f"{path}, line 2 and 4 more: unreadable lines are left out."]
    cut_to_step(path, 2, said.append)
    assert len(said) == 2
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_a_size_beyond_the_end_changes_nothing(tmp_path):
    """The end of the log was lost with the disk's cache."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n')
    cut_to_size(path, 100)
    cut_to_size(tmp_path / "absent", 100)
    assert path.read_text() == '{"step": 1}\n'


def test_a_log_begins_anew_unless_it_is_to_go_on(tmp_path):
    for step in (1, 2):
        log = Log(tmp_path / "log.jsonl")
        log.write(step=step)
        log.close()
    assert read_log(tmp_path / "log.jsonl") == [{"step": 2}]


def test_a_process_that_writes_nothing_has_a_log_of_no_size():
    log = Log(None)
    log.write(step=1)
    assert log.size() == 0
    log.close()


def test_a_full_disk_names_the_log_and_the_remedy():
    """/dev/full takes nothing: the record fails when it is written through."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    log = Log(full)
    log.write(event="step")
    said = (
        "/dev/full cannot be written (No space left on device): make room, and continue with --resume."
    )
    for act in (log.flush, log.close):
        with pytest.raises(RunFolderError) as raised:
            act()
        assert str(raised.value) == said


def test_a_step_is_read_as_it_was_written(tmp_path):
    alone = StepRecord(1, "main", 0.5, 2.0, 0.1, 1e-3, {"a": 1.0})
    losses = {"a": 1.0, "b": 3.0}
    several = StepRecord(2, "main", 1.0, 4.0, 0.2, 1e-3, losses, -0.5, 1.0, -2.0, {"x": 1.0})
    log = Log(tmp_path / "log.jsonl")
    log.add(alone)
    log.add(several)
    log.close()
    first, second = read_log(tmp_path / "log.jsonl")
    assert list(first) == ["event", "step", "phase", "share", "gradients", "seconds", "lr", "loss"]
    assert [StepRecord.of(first), StepRecord.of(second)] == [alone, several]
    assert several.mean_loss == 2.0


@pytest.mark.parametrize("other", [{"event": "evaluation"}, {"loss": 2.5}, {"lr": []}, {"dot": "x"}])
def test_a_record_of_another_shape_is_no_step_of_training(other):
    assert StepRecord.of({"event": "step", "step": 1, **other}) is None


def test_the_tail_of_a_long_file_is_its_last_lines(tmp_path):
    path = tmp_path / "log"
    assert tail(path) == []
    path.write_text("".join(f"line {i}\n" for i in range(5000)))
    found = tail(path)
    assert found[-1] == "line 4999"
    assert 100 < len(found) < 5000
