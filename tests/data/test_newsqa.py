"""`text.newsqa`: NewsQA as its own script writes it; MRQA's layout is in test_mrqa.py."""

from __future__ import annotations

import json

from data_files import put

from gradaccord import data
from gradaccord.data.examples import Question


def test_newsqa_of_its_own_script(tmp_path):
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
    put(tmp_path, "combined-newsqa-data-v1.json", json.dumps({"data": stories}))
    newsqa = data.load("newsqa", tmp_path)
    assert newsqa.split("test") == [Question("Who?", "Yes Ann won.", ("Ann",), (4,), "en", "s-0")]
    assert newsqa.notes["train: questions without an agreed answer left out"] == 1
