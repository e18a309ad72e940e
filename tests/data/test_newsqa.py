"""`text.newsqa` and `text.mrqa`: NewsQA in both layouts."""

from __future__ import annotations

import json

from data_files import jsonl, only, put

from gradaccord import data
from gradaccord.data.examples import Question


def test_newsqa_of_mrqa_and_of_its_own_script(tmp_path):
    span = {"text": "Ann", "char_spans": [[4, 6]], "token_spans": [[1, 1]]}
    asked = {"qid": "q", "question": "Who?", "detected_answers": [span], "answers": ["Ann"]}
    rows = (
        {"header": {"dataset": "NewsQA"}},
        {"id": "", "context": "So, Ann won.".replace(",", ""), "qas": [asked]},
    )
    rows[1]["context"] = "Yes Ann won."
    put(tmp_path, "mrqa/train/NewsQA.jsonl.gz", jsonl(*rows))
    put(tmp_path, "mrqa/dev/NewsQA.jsonl.gz", jsonl(*rows))
    assert only("newsqa", tmp_path) == Question("Who?", "Yes Ann won.", ("Ann",), (4,), "en", "q")
    other = tmp_path / "other"
    stories = [
        {
            "storyId": "s",
            "type": kind,
            "text": "Yes Ann won.",
            "questions": [
                {"q": "Who?", "consensus": {"s": 4, "e": 8}},
                {"q": "?", "consensus": {"noAnswer": True}},
            ],
        }
        for kind in ("train", "dev", "test")
    ]
    put(other, "combined-newsqa-data-v1.json", json.dumps({"data": stories}))
    newsqa = data.load("newsqa", other)
    assert newsqa.split("test") == [Question("Who?", "Yes Ann won.", ("Ann",), (4,), "en", "s-0")]
    assert newsqa.notes["train: questions without an agreed answer left out"] == 1
