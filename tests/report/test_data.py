"""What is read from a folder: comparisons cut short, runs that are gone, damaged files."""

import json
import tracemalloc

import pytest
from made_results import made_results
from report_support import Page

from gradaccord.cli.app import main
from gradaccord.report import data
from gradaccord.report.data import read_report_data, read_run
from gradaccord.report.page import render


def test_a_comparison_cut_short_is_reported_with_what_is_missing(copied):
    whole = read_report_data(copied).comparison
    (copied / "comparison.json").unlink()
    assert read_report_data(copied).comparison == whole  # as the command itself would have written it
    (copied / "pcgrad" / "seed-1" / "results.json").unlink()
    page = Page.of(render(read_report_data(copied)))
    assert "Runs to be wary of" in page.headings
    said = [e.text for e in page.all if e.tag in ("li", "p")]
    assert "pcgrad, seed 1: not finished." in said
    assert "1 run is missing from the means." in said
    (row,) = [row for row in page.table("leaderboard") if row[0] == "pcgrad"]
    assert row[-1] == "1 (1 missing)"


def test_runs_that_were_never_begun_are_missing_too(copied):
    (copied / "comparison.json").unlink()
    for method in ("pcgrad", "stl"):
        never = copied / method / "seed-1"
        for path in sorted(never.rglob("*"), reverse=True):
            if path.name != "wanted.yaml":
                path.rmdir() if path.is_dir() else path.unlink()
    (copied / "sum" / "seed-1" / "results.json").unlink()
    page = Page.of(render(read_report_data(copied)))
    said = [e.text for e in page.all if e.tag in ("li", "p")]
    assert "3 runs are missing from the means." in said
    assert {"sum, seed 1: not finished.", "stl, seed 1: not started."} <= {*said}


def test_without_a_p_value_no_number_of_tests_is_given(copied):
    said = Page.of(render(read_report_data(copied))).root.text  # of two seeds
    assert "no difference has a p value, so that no method is called better or worse" in said
    assert "0 tests" not in said


def test_a_run_whose_folder_is_gone_is_named(copied):
    (copied / "stl" / "seed-1" / "results.json").unlink()
    page = Page.of(render(read_report_data(copied)))
    assert "The folder of stl, seed 1, is gone." in [e.text for e in page.all if e.tag == "li"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("nowhere", "is not a folder"),
        ("empty", "holds no run"),
        ("unfinished", "holds only unfinished runs"),
        ("comparison", "comparison.json is damaged"),
        ("results", "results.json is damaged"),
        ("list", "comparison.json is damaged (it holds no JSON object)"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(damage, said, copied, tmp_path, capsys):
    folder = copied
    if damage == "nowhere":
        folder = tmp_path / "nowhere"
    elif damage == "empty":
        folder = tmp_path / "empty"
        folder.mkdir()
    elif damage == "unfinished":
        for path in copied.glob("*/seed-*/results.json"):
            path.unlink()
    elif damage == "comparison":
        (copied / "comparison.json").write_text('{"methods": [')
    elif damage == "list":
        (copied / "comparison.json").write_text("[]")
    else:
        (copied / "sum" / "seed-0" / "results.json").write_bytes(b'{"a": "\xff')
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder)])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize("gradients", ["null", '"x"', "NaN", "1e400", "0", "-1", "[]", "1" + "0" * 400])
def test_a_step_of_another_shape_is_left_out(tmp_path, gradients):
    long_run(tmp_path, 3)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write(
            f'{{"event": "step", "phase": "main", "gradients": {gradients}, "loss": {{"a": 1}}}}\n'
        )
    assert len(read_run(tmp_path).steps) == 3


def long_run(folder, lines):
    """A run whose step n has the losses n and n + 2, and an evaluation after the last step."""
    made_results({"a": 50.0, "b": 50.0}).write(folder)
    with (folder / "log.jsonl").open("w") as file:
        for n in range(1, lines + 1):
            step = {"event": "step", "phase": "main", "gradients": 2.0 * n, "dot": None, "cosine": 0.5}
            file.write(json.dumps({**step, "loss": {"a": n, "b": n + 2}, "conflicts": n % 2}) + "\n")
        file.write(json.dumps({"event": "evaluation"}) + "\n")
    return folder


def test_a_long_log_is_read_line_by_line(tmp_path):
    lines = 30_000  # as dictionaries, 24 MB
    long_run(tmp_path, lines)
    tracemalloc.start()
    steps = read_run(tmp_path).steps
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(steps) == lines
    assert peak < 200 * lines


def test_of_a_very_long_log_some_steps_are_read(tmp_path, monkeypatch):
    long_run(tmp_path, 1000)
    monkeypatch.setattr(data, "WHOLE", (tmp_path / "log.jsonl").stat().st_size // 9)
    steps = read_run(tmp_path).steps
    assert list(steps.gradients) == [2.0 * n for n in range(1, 1001, 10)]
    assert list(steps.values["loss"]) == [n + 1.0 for n in range(1, 1001, 10)]


def test_a_few_shot_run_is_sent_to_its_own_command(tmp_path):
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / "settings.json").write_text("{}")
    with pytest.raises(ValueError, match="holds a few-shot run: `gradaccord fewshot figures"):
        read_report_data(tmp_path)
