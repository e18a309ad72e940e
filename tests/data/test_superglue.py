"""`text.superglue`: the files as published."""

from __future__ import annotations

from data_files import jsonl, only, put

from gradaccord import data
from gradaccord.data.examples import Candidate, Choices, Cloze, Coreference, Text, WordPair


def test_superglue_as_published(tmp_path):
    put(
        tmp_path,
        "BoolQ/val.jsonl",
        jsonl({"question": "is it", "passage": "It is.", "idx": 4, "label": True}),
    )
    put(tmp_path, "BoolQ/test.jsonl", jsonl({"question": "is it", "passage": "It is.", "idx": 4}))
    put(
        tmp_path,
        "CB/train.jsonl",
        jsonl({"premise": "P", "hypothesis": "H", "label": "neutral", "idx": 0}),
    )
    put(
        tmp_path,
        "RTE/val.jsonl",
        jsonl({"premise": "P", "hypothesis": "H", "label": "entailment", "idx": 0}),
    )
    copa = {"premise": "P", "choice1": "a", "choice2": "b", "question": "cause", "label": 1, "idx": 2}
    put(tmp_path, "COPA/train.jsonl", jsonl(copa))
    answers = [{"text": "yes", "idx": 0, "label": 1}, {"text": "no", "idx": 1, "label": 0}]
    questions = [{"question": "Q?", "answers": answers, "idx": 3}]
    put(
        tmp_path,
        "MultiRC/train.jsonl",
        jsonl({"idx": 5, "passage": {"text": "P", "questions": questions}}),
    )
    record = {
        "idx": 1,
        "passage": {
            "text": "Ann met Bob.\n@highlight\nAnn won",
            "entities": [{"start": 0, "end": 2}, {"start": 8, "end": 10}, {"start": 24, "end": 26}],
        },
        "qas": [
            {"query": "@placeholder won", "answers": [{"start": 0, "end": 2, "text": "Ann"}], "idx": 9}
        ],
    }
    put(tmp_path, "ReCoRD/val.jsonl", jsonl(record))
    wic = {
        "word": "bank", "sentence1": "A bank.", "sentence2": "Banks lend.", "idx": 0, "label": False,
        "start1": 2, "end1": 6, "start2": 0, "end2": 5,
    }  # fmt: skip
    put(tmp_path, "WiC/train.jsonl", jsonl(wic))
    target = {"span1_index": 0, "span1_text": "Mark", "span2_index": 5, "span2_text": "he"}
    wsc = {"text": 'Mark told Pete, the liar, "he lied".', "target": target, "idx": 0, "label": False}
    put(tmp_path, "WSC/train.jsonl", jsonl(wsc))
    axb = {"sentence1": "A", "sentence2": "B", "idx": "0", "label": "not_entailment"}
    put(tmp_path, "AX-b/AX-b.jsonl", jsonl(axb))
    put(
        tmp_path,
        "AX-g/AX-g.jsonl",
        jsonl({"premise": "A", "hypothesis": "B", "idx": 0, "label": "entailment"}),
    )
    assert only("boolq", tmp_path, "dev") == Text("is it", "It is.", 1, "4")
    assert only("boolq", tmp_path, "test").label is None
    assert only("cb", tmp_path).label == 2
    assert only("rte", tmp_path, "dev").label == 0
    assert only("copa", tmp_path) == Choices("P", "cause", ("a", "b"), 1, "2")
    assert data.load("multirc", tmp_path).split("train") == [
        Candidate("P", "Q?", "yes", 1, "5-3", "5-3-0"),
        Candidate("P", "Q?", "no", 0, "5-3", "5-3-1"),
    ]
    text = record["passage"]["text"]
    expected = Cloze(text, "@placeholder won", ("Ann", "Bob"), ("Ann",), "1-9")
    assert only("record", tmp_path, "dev") == expected
    assert only("wic", tmp_path) == WordPair("A bank.", "Banks lend.", (2, 6), (0, 5), 0, "0")
    found = only("wsc", tmp_path)
    assert found == Coreference(wsc["text"], (0, 4), (27, 29), 0, "0")
    assert only("axb", tmp_path, "test").label == 1
    assert only("axg", tmp_path, "test").label == 0
    assert data.load("superglue/rte", tmp_path).name == "rte"
