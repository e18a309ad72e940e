"""`files.conll`: tags that cannot be."""

from __future__ import annotations

from data_files import put, refused

from gradaccord import data


def test_tags_that_cannot_be(tmp_path):
    put(tmp_path, "wikiann/de/train.conll", "in\tO\nUlm\tI-LOC\n\n")
    message = refused("wikiann/de", tmp_path, iob="strict")
    assert "train.conll, line 2: the tag 'I-LOC' cannot follow 'O'" in message
    put(tmp_path, "wikiann/de/train.conll", "A\tB-PER\nUlm\tI-LOC\n\n")
    assert "line 2: the tag 'I-LOC' cannot follow 'B-PER'" in refused(
        "wikiann/de", tmp_path, iob="strict"
    )
    repaired = data.load("wikiann/de", tmp_path)
    assert repaired.split("train")[0].tags == ("B-PER", "B-LOC")
    assert sum(repaired.notes.values()) == 1
    put(tmp_path, "wikiann/de/train.conll", "A\tB-PER\n\nUlm\tB-GPE\n\n")
    assert "line 3: the tag 'B-GPE' is not O, or B- or I- with one of PER, LOC, ORG." in refused(
        "wikiann/de", tmp_path
    )
    put(tmp_path, "wikiann/de/train.conll", "A\tB-PER\nUlm\n\n")
    assert "line 2: 1 columns where 2 are expected" in refused("wikiann/de", tmp_path)
    assert "`iob` is 'mend'" in refused("wikiann/de", tmp_path, iob="mend")
