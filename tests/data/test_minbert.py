"""`text.minbert`: the CS224N files."""

from __future__ import annotations

from data_files import only, put, tsv

from gradaccord import data
from gradaccord.data.examples import Text


def test_minbert_files_with_quotes_and_the_test_header_that_is_one_name_short(tmp_path):
    put(
        tmp_path,
        "data/ids-sst-train.csv",
        tsv(("", "id", "sentence", "sentiment"), (0, "a", " Good .", 3)),
    )
    put(tmp_path, "data/ids-sst-test-student.csv", "\tid\tsentence\n0\t0.0\tb\t Bad .\n")
    quoted = '"He said ""no"" twice."'
    rows = ("", "id", "sentence1", "sentence2", "is_duplicate"), (7, "c", quoted, 'say "x"', "1.0")
    put(tmp_path, "data/quora-train.csv", tsv(*rows))
    rows = ("", "id", "sentence1", "sentence2", "similarity"), (7, "d", "A", "B", "2.5")
    put(tmp_path, "data/sts-train.csv.gz", tsv(*rows))
    put(
        tmp_path,
        "data/sts-test-student.csv",
        tsv(("", "id", "sentence1", "sentence2"), (7, "e", "A", "B")),
    )
    sst = data.load("sst", tmp_path)
    assert sst.splits == {
        "train": [Text("Good .", None, 3, "a")],
        "test": [Text("Bad .", None, None, "b")],
    }
    assert only("quora", tmp_path) == Text('He said "no" twice.', 'say "x"', 1, "c")
    assert only("sts", tmp_path) == Text("A", "B", 2.5, "d")
    assert only("sts", tmp_path, "test") == Text("A", "B", None, "e")


def test_sst_with_bars(tmp_path):
    put(tmp_path, "sst-train.txt", "4 ||| Great fun\n0 ||| Dull\n")
    assert only("sst", tmp_path) == Text("Great fun", None, 4, "train-0")
