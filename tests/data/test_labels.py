"""`files.labels`: labels and values that are none."""

from __future__ import annotations

from data_files import put, refused

HEADER = "sentence\tlabel\n"


def test_unknown_label_and_label_out_of_range(tmp_path):
    put(tmp_path, "SST-2/train.tsv", HEADER + "fine\t1\nbad\tawful\n")
    assert "train.tsv, line 3: the label 'awful' is not one of 0..1" in refused("sst2", tmp_path)
    put(tmp_path, "SST-2/train.tsv", HEADER + "fine\t2\n")
    assert "train.tsv, line 2: the label '2' is not one of 0..1 or negative, positive." in refused(
        "sst2", tmp_path
    )
    put(
        tmp_path,
        "COPA/train.jsonl",
        '{"premise": "", "question": "", "choice1": "", "choice2": "", "label": 2}',
    )
    assert "train.jsonl, line 1: the label 2 is not one of 0..1" in refused("copa", tmp_path)


def test_a_value_that_is_no_number(tmp_path):
    put(tmp_path, "STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\tnan\n")
    assert "train.tsv, line 2: the value 'nan' is not a finite number." in refused("sts-b", tmp_path)
    put(tmp_path, "STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\tfour\n")
    assert "the value 'four' is not a number." in refused("sts-b", tmp_path)
