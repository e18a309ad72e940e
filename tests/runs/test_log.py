"""The log is cut back to the checkpoint that a run continues from."""

from gradaccord.runs.log import Log, cut_to_size, cut_to_step, read_log


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
    assert said == [f"{path}, line 2 and 4 more: what cannot be read is left out."]
    cut_to_step(path, 2, said.append)
    assert len(said) == 2
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
