"""`examples`: every kind has a shape, and reads answers as files have them."""

from __future__ import annotations

import json

from data_files import KIND_ROWS, write

from gradaccord import data
from gradaccord.data.examples import (
    EXAMPLES,
)


def test_every_kind_of_task_but_images_can_be_read():
    from gradaccord.tasks import KINDS

    assert {*KINDS} - {*EXAMPLES} == {"image"}
    assert {*EXAMPLES} - {*KIND_ROWS} == {"classification", "regression"}


def test_answers_in_other_shapes(tmp_path):
    for answers, more in (
        ("Ann", {}),
        (["Ann"], {}),
        (["Ann"], {"starts": [3]}),
        ("Ann", {"answer_start": 3}),
        ([{"text": "Ann", "answer_start": 3}], {}),
        ('{"text": ["Ann"], "answer_start": [3]}', {}),
    ):
        path = write(
            tmp_path / "a.jsonl", [{"question": "q", "context": "an Ann", "answers": answers, **more}]
        )
        found = data.read("question_answering", {"train": path}).split("train")[0]
        assert (found.answers, found.starts) == (("Ann",), (3,))
    squad = {
        "data": [
            {
                "paragraphs": [
                    {"context": "an Ann", "qas": [{"id": "i", "question": "q", "answers": []}]}
                ]
            }
        ]
    }
    (tmp_path / "s.json").write_text(json.dumps(squad))
    assert data.read("question_answering", {"dev": tmp_path / "s.json"}).counts == {"dev": 1}
