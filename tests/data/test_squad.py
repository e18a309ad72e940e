"""`files.squad`: SQuAD's JSON that is not as it should be."""

from __future__ import annotations

import json

import pytest
from data_files import put, refused

from gradaccord import data


@pytest.mark.parametrize("place", ["question", "context", "text", "answer_start"])
def test_null_in_squads_json_is_one_sentence(tmp_path, place):
    answer = {"text": "Ann", "answer_start": 3}
    asked = {"id": "i", "question": "q", "answers": [answer]}
    paragraph = {"context": "an Ann", "qas": [asked]}
    next(each for each in (answer, asked, paragraph) if place in each)[place] = None
    (tmp_path / "s.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    with pytest.raises(ValueError, match=rf"s\.json: .*'{place}'"):
        data.read("question_answering", {"dev": tmp_path / "s.json"})


def test_answers_that_are_not_where_the_file_says(tmp_path):
    answer = {"text": "Ann", "answer_start": 4}
    qas = [{"id": "q7", "question": "Who?", "answers": [answer]}]
    content = {"data": [{"paragraphs": [{"context": "Now Ann won.", "qas": qas}]}]}
    put(tmp_path, "xquad.de.json", json.dumps(content))
    assert data.load("xquad/de", tmp_path).split("test")[0].starts == (4,)
    answer["answer_start"] = 3
    put(tmp_path, "xquad.de.json", json.dumps(content))
    message = refused("xquad/de", tmp_path)
    assert "xquad.de.json, question 'q7': the answer 'Ann' is not at character 3" in message
    put(tmp_path, "xquad.de.json", json.dumps({"data": [{"paragraphs": [{"qas": []}]}]}))
    assert "a paragraph has no 'context'" in refused("xquad/de", tmp_path)
    put(tmp_path, "xquad.de.json", '{"data":\n [}')
    assert "xquad.de.json, line 2: not JSON" in refused("xquad/de", tmp_path)
