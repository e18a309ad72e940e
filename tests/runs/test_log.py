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
