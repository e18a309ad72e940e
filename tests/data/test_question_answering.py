"""`text.question_answering`: SQuAD, XQuAD, MLQA and TyDiQA as published."""

from __future__ import annotations

from data_files import only, put, squad

from gradaccord import data
from gradaccord.data.examples import Question
from gradaccord.tasks.registry import options, task_for
from gradaccord.tasks.transfer import task_by_head


def test_squad_as_published(tmp_path):
    put(tmp_path, "squad/train-v1.1.json", squad(("a", " Who? ", [("Ann", 0)]), context="Ann won."))
    put(
        tmp_path,
        "squad/dev-v1.1.json",
        squad(("a", "Who?", [("Ann", 0), ("Ann won", 0)]), context="Ann won."),
    )
    put(
        tmp_path,
        "train-v2.0.json.gz",
        squad(("b", "Who?", [("Ann", 0)]), context="Ann won.", is_impossible=False),
    )
    hopeless = squad(("b", "Why?", []), context="Ann won.", is_impossible=True, plausible_answers=[])
    put(tmp_path, "dev-v2.0.json", hopeless)
    assert only("squad1", tmp_path) == Question("Who?", "Ann won.", ("Ann",), (0,), "en", "a")
    assert only("squad", tmp_path, "dev").answers == ("Ann", "Ann won")
    assert only("squad2", tmp_path, "dev") == Question("Why?", "Ann won.", (), (), "en", "b")


def test_multilingual_squad_files_as_published(tmp_path):
    one = squad(("a", "Wer?", [("Änne", 0)]), context="Änne gewann.")
    put(tmp_path, "xquad/xquad.de.json", one)
    put(tmp_path, "MLQA_V1/test/test-context-de-question-de.json", one)
    put(tmp_path, "MLQA_V1/test/test-context-de-question-en.json", one)
    put(tmp_path, "MLQA_V1/dev/dev-context-de-question-de.json", one)
    both = squad(
        ("finnish-1-0", "Kuka?", [("Änne", 0)]),
        ("korean-1-0", "?", [("Änne", 0)]),
        context="Änne gewann.",
    )
    put(tmp_path, "tydiqa-goldp-v1.1-train.json", both)
    put(
        tmp_path,
        "tydiqa-goldp-v1.1-dev/tydiqa-goldp-dev-finnish.json",
        squad(("f", "K?", [("Ä", 0)]), context="Ä"),
    )
    assert only("xquad/de", tmp_path, "test").language == "de"
    assert data.load("mlqa/de", tmp_path).counts == {"dev": 1, "test": 1}
    assert only("mlqa/de-en", tmp_path, "test").language == "de"
    assert options(task_for(data.load("mlqa/de-en", tmp_path)))["normalise"] == "mlqa"
    source = task_for(data.load("mlqa/de", tmp_path))
    other = task_by_head("xquad", data.load("xquad/de", tmp_path), "mlqa", source)
    assert options(other)["normalise"] == "squad"
    assert data.load("tydiqa/fi", tmp_path).counts == {"train": 1, "dev": 1}
    assert only("tydiqa/ko", tmp_path).id == "korean-1-0"
