"""`text.mrqa`: JSON lines of a context and its questions, as MRQA has NewsQA."""

from __future__ import annotations

from data_files import jsonl, only, put, refused

from gradaccord.data.examples import Question


def rows(*spans):
    answer = {"text": "Ann", "char_spans": [*spans], "token_spans": [[1, 1]]}
    asked = {"qid": "q", "question": "Who?", "detected_answers": [answer], "answers": ["Ann"]}
    return jsonl(
        {"header": {"dataset": "NewsQA"}}, {"id": "", "context": "Yes Ann won.", "qas": [asked]}
    )


def test_answers_are_the_detected_spans_their_ends_inclusive(tmp_path):
    for split in ("train", "dev"):
        put(tmp_path, f"mrqa/{split}/NewsQA.jsonl.gz", rows([4, 6]))
    assert only("newsqa", tmp_path) == Question("Who?", "Yes Ann won.", ("Ann",), (4,), "en", "q")


def test_a_span_outside_the_context_is_an_error_with_its_line(tmp_path):
    put(tmp_path, "mrqa/dev/NewsQA.jsonl.gz", rows([4, 6]))
    put(tmp_path, "mrqa/train/NewsQA.jsonl.gz", rows([4, 6], [9, 12]))
    message = refused("newsqa", tmp_path)
    assert "line 2: an answer of question 'q' is at characters 9 to 13 of a context of 12." in message
