"""`text.crosslingual`: XNLI and XCOPA in every layout."""

from __future__ import annotations

from data_files import jsonl, only, put, tsv

from gradaccord import data
from gradaccord.data.examples import Choices, Text


def test_xnli_in_one_file_for_all_languages_and_with_translated_training_pairs(tmp_path):
    head = ("language", "gold_label", "sentence1_binary_parse", "sentence1", "sentence2", "pairID")
    rows = [(lang, "neutral", "", f"{lang} p", f"{lang} h", 1) for lang in ("ar", "de", "sw")]
    put(tmp_path, "XNLI-1.0/xnli.dev.tsv", tsv(head, *rows, ("de", "entailment", "", "p2", "h2", 2)))
    put(tmp_path, "XNLI-1.0/xnli.test.tsv", tsv(head, *rows))
    train = ("premise", "hypo", "label"), ("p", "h", "contradictory")
    put(tmp_path, "XNLI-MT-1.0/multinli/multinli.train.de.tsv", tsv(*train))
    german = data.load("xnli/de", tmp_path)
    assert german.counts == {"train": 1, "dev": 2, "test": 1}
    assert german.split("train")[0].label == 2
    assert german.split("dev") == [Text("de p", "de h", 1, "dev-0"), Text("p2", "h2", 0, "dev-1")]
    assert data.load("xnli", tmp_path, language="sw", splits=["test"]).counts == {"test": 1}


def test_xnli_without_test_labels_and_xcopa(tmp_path):
    put(tmp_path, "xnli/test-th.tsv.gz", tsv(("p", "h")))
    copa = {"premise": "P", "choice1": "a", "choice2": "b", "question": "effect", "label": 0, "idx": 2}
    put(tmp_path, "xcopa/data/et/val.et.jsonl", jsonl({**copa, "changed": False}))
    put(tmp_path, "xcopa/data-gmt/et/val.et.jsonl", jsonl({**copa, "premise": "translated"}))
    assert only("xnli/th", tmp_path, "test") == Text("p", "h", None, "test-0")
    assert only("xcopa/et", tmp_path, "dev") == Choices("P", "effect", ("a", "b"), 0, "2")
