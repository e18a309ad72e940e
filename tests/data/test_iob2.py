"""`files.iob2`: tags that cannot be."""

from __future__ import annotations

import pytest
from data_files import put, refused

from gradaccord import data
from gradaccord.data.files.iob2 import repair, tags_of


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
    assert "`iob` is 'mend'" in refused("wikiann/de", tmp_path, iob="mend")


@pytest.mark.parametrize(
    ("tags", "expected", "count"),
    [
        ("O B-A I-A I-A O", "O B-A I-A I-A O", 0),
        ("I-A I-A O I-B", "B-A I-A O B-B", 2),  # IOB1
        ("I-A B-A I-A", "B-A B-A I-A", 1),  # IOB1: B- where an entity follows one of its type
        ("B-A I-B I-B I-A", "B-A B-B I-B B-A", 2),
        ("", "", 0),
    ],
)
def test_an_entity_begins_where_a_tag_continues_nothing(tags, expected, count):
    assert repair(tags.split()) == (expected.split(), count)


def test_the_tags_of_types():
    assert tags_of(("A", "B-C")) == {"O", "B-A", "I-A", "B-B-C", "I-B-C"}
