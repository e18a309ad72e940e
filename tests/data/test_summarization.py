"""`text.summarization`: every layout."""

from __future__ import annotations

import json

from data_files import only, put, refused

from gradaccord import data


def test_summaries_that_do_not_correspond(tmp_path):
    put(tmp_path, "train.article.txt", "a\nb\n")
    assert "needs train.title.txt beside it" in refused("gigaword", tmp_path)
    put(tmp_path, "train.title.txt", "a\n")
    assert "train.title.txt has 1 lines where" in refused("gigaword", tmp_path)


def test_summaries_as_published(tmp_path):
    put(tmp_path, "sumdata/train/train.article.txt.gz", "long one\nlong two\n")
    put(tmp_path, "sumdata/train/train.title.txt.gz", "one\ntwo\n")
    put(tmp_path, "sumdata/train/valid.article.filter.txt", "long one\n")
    put(tmp_path, "sumdata/train/valid.title.filter.txt", "one\n")
    put(tmp_path, "sumdata/Giga/input.txt", "a b c\n")
    put(tmp_path, "sumdata/Giga/task1_ref0.txt", "a\n")
    put(tmp_path, "sumdata/DUC2004/input.txt", "a b c\n")
    for number in range(4):
        put(tmp_path, f"sumdata/DUC2004/task1_ref{number}.txt", f"{number}\n")
    assert data.load("gigaword", tmp_path).counts == {"train": 2, "dev": 1, "test": 1}
    assert only("gigaword", tmp_path).summaries == ("one",)
    assert only("duc2004", tmp_path, "test").summaries == ("0", "1", "2", "3")
    pair = {"graph": {"sentence": "A b c."}, "compression": {"text": "A c."}}
    put(
        tmp_path,
        "sent-comp.train01.json.gz",
        json.dumps(pair, indent=1) + "\n\n" + json.dumps(pair, indent=1),
    )
    put(tmp_path, "sent-comp.train02.json.gz", json.dumps(pair, indent=1) + "\n\n")
    put(tmp_path, "comp-data.eval.json", "\n\n".join([json.dumps(pair, indent=1)] * 1002))
    assert data.load("google-compression", tmp_path).counts == {"train": 3, "dev": 2, "test": 1000}
    assert only("google-compression", tmp_path).summaries == ("A c.",)


def test_gigaword_as_source_and_target(tmp_path):
    for split in ("train", "dev", "test"):
        put(tmp_path, f"ggw_data/org_data/{split}.src.txt", "long\n")
        put(tmp_path, f"ggw_data/org_data/{split}.tgt.txt", "short\n")
    assert data.load("gigaword", tmp_path).counts == {"train": 1, "dev": 1, "test": 1}
    assert only("gigaword", tmp_path, "test").summaries == ("short",)
