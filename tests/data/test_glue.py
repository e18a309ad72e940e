"""`text.glue`: the files as published."""

from __future__ import annotations

from data_files import only, put, tsv

from gradaccord import data
from gradaccord.data.examples import Text


def test_glue_as_published(tmp_path):
    put(tmp_path, "glue/CoLA/train.tsv", tsv(("gj04", 1, "", "It is."), ("gj04", 0, "*", "Is it it.")))
    put(tmp_path, "glue/CoLA/test.tsv", tsv(("index", "sentence"), (0, "Is it?")))
    put(tmp_path, "glue/SST-2/dev.tsv", tsv(("sentence", "label"), ("fun ", 1)))
    head = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    put(tmp_path, "glue/MRPC/train.tsv", b"\xef\xbb\xbf" + tsv(head, (1, 5, 6, '" A', "B")).encode())
    put(tmp_path, "glue/MRPC/msr_paraphrase_test.txt", tsv(head, (0, 5, 6, "C", "D")))
    put(
        tmp_path,
        "glue/QNLI/train.tsv",
        tsv(("index", "question", "sentence", "label"), (3, "Q", "S", "entailment")),
    )
    head = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    put(tmp_path, "glue/QQP/train.tsv", tsv(head, (3, 1, 2, "Q", "S", 1), (4, "cut off")))
    head = ("index", "genre", "sentence1", "sentence2", "label1", "gold_label")
    row = (0, "fiction", "P", "H", "neutral", "contradiction")
    put(tmp_path, "glue/MNLI/train.tsv", tsv(head, row))
    put(tmp_path, "glue/MNLI/dev_matched.tsv", tsv(head, row))
    put(tmp_path, "glue/MNLI/dev_mismatched.tsv", tsv(head, row, row))
    put(tmp_path, "glue/MNLI/test_matched.tsv", tsv(head[:4], row[:4]))
    put(
        tmp_path,
        "glue/STS-B/dev.tsv",
        tsv(("index", "sentence1", "sentence2", "score"), (0, "A", "B", 3.8)),
    )
    put(
        tmp_path,
        "glue/WNLI/dev.tsv",
        tsv(("index", "sentence1", "sentence2", "label"), (0, "A", "B", 1)),
    )
    assert [e.label for e in data.load("cola", tmp_path).split("train")] == [1, 0]
    assert only("cola", tmp_path, "test") == Text("Is it?", None, None, "0")
    assert only("sst2", tmp_path, "dev").first == "fun"
    assert only("mrpc", tmp_path) == Text('" A', "B", 1, "train-0")
    assert only("mrpc", tmp_path, "test").label == 0
    assert only("qnli", tmp_path) == Text("Q", "S", 0, "3")
    assert data.load("qqp", tmp_path).notes == {"train: malformed lines left out": 1}
    assert only("qqp", tmp_path) == Text("Q", "S", 1, "3")
    assert only("mnli", tmp_path, "dev") == Text("P", "H", 2, "0")
    assert only("mnli", tmp_path, "test").label is None
    assert data.load("mnli-mm", tmp_path).counts == {"train": 1, "dev": 2}
    assert only("sts-b", tmp_path, "dev").label == 3.8
    assert only("wnli", tmp_path, "dev").label == 1
    assert data.load("glue/cola", tmp_path).name == "cola"
