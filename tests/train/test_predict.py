"""Questions as they are typed or stand in files, and answers as they are written."""

from __future__ import annotations

import csv
import io
import json

import pytest

from gradaccord.train.predict import Answer, model_folder, read_input, read_lines, write_answers

SURE, BARE = Answer("yes", {"no": 0.25, "yes": 0.75}), Answer(0.5, None)


def test_a_line_is_a_text_or_an_object_and_empty_ones_are_left_out():
    lines = ["a text", "", '  {"first": "b"} ', "   ", "[1]"]
    assert list(read_lines(lines)) == [(1, "a text"), (3, {"first": "b"}), (5, "[1]")]
    with pytest.raises(ValueError, match=r"in.txt, line 2 is not JSON: .* \(character \d+\)"):
        list(read_lines(["a", '{"first": '], "in.txt"))


def test_half_of_a_character_is_refused():
    with pytest.raises(ValueError, match="surrogate"):
        read_input('{"first": "\\ud83d"}')


def test_a_model_is_found_in_the_run_that_holds_it(tmp_path):
    assert model_folder(tmp_path) == tmp_path
    (tmp_path / "model").mkdir()
    assert model_folder(tmp_path) == tmp_path / "model"


def test_json_lines_have_the_input_and_probabilities_where_there_are_some():
    out = io.StringIO()
    write_answers(out, "jsonl", ["ä", {"first": "b"}], [SURE, BARE])
    assert "ä" in out.getvalue()
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"input": "ä", "prediction": "yes", "probabilities": {"no": 0.25, "yes": 0.75}},
        {"input": {"first": "b"}, "prediction": 0.5},
    ]


@pytest.mark.parametrize(("ending", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_a_table_keeps_every_column_and_lists_are_json(ending, delimiter):
    out = io.StringIO()
    rows = [{"a": 'x, "y"', "b": [1, "é"]}, {"a": None, "c": True}]
    write_answers(out, ending, rows, [SURE, BARE])
    table = list(csv.reader(io.StringIO(out.getvalue()), delimiter=delimiter))
    assert table == [
        ["a", "b", "c", "prediction", "p(no)", "p(yes)"],
        ['x, "y"', '[1, "é"]', "", "yes", "0.25", "0.75"],
        ["", "", "true", "0.5", "", ""],
    ]


def test_a_column_is_not_overwritten():
    with pytest.raises(ValueError, match="has a column 'p\\(yes\\)', which is to be written"):
        write_answers(io.StringIO(), "csv", [{"p(yes)": 1}], [SURE])
