"""`files.cells`: a cell that is missing or of the wrong shape is an error with its place."""

from __future__ import annotations

import copy
import math

import pytest
from data_files import KIND_ROWS, write

from gradaccord import data

# A whole row of each kind, and the places in it that hold texts.
ROWS = {
    "classification": {"first": "a", "second": "b", "label": "x"},
    "regression": {"first": "a", "label": 1.5},
    **{kind: row for kind, (row, _, _) in KIND_ROWS.items()},
}


TEXTS = {
    "classification": ["first"],
    "regression": ["first"],
    "multiple_choice": ["premise", "choice1", "choice2"],
    "multi_answer": ["passage", "question", "answer"],
    "cloze": ["passage.text", "query", "entities", "entities.0", "answers.0"],
    "word_in_context": ["first", "second", "s", "second_span"],
    "coreference": ["text", "noun_span", "pronoun_span"],
    "question_answering": ["question", "context", "answers.text.0"],
    "tagging": ["tokens", "tokens.1", "ner_tags.0"],
    "summarization": ["document", "summary.0"],
    "masked_lm": ["text"],
}


PLACES = [(kind, place) for kind, places in TEXTS.items() for place in places]


def without(row, place, missing):
    """The row with what stands at a place missing."""
    row = copy.deepcopy(row)
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    inside = row
    for part in path:
        if isinstance(inside[part], str):
            inside[part] = [inside[part]]
        inside = inside[part]
    inside[last] = missing
    return row


@pytest.mark.parametrize("missing", [None, math.nan, {}], ids=["null", "NaN", "object"])
@pytest.mark.parametrize(("kind", "place"), PLACES)
def test_null_in_a_text_is_an_error_with_its_line_for_every_kind(tmp_path, kind, place, missing):
    row = ROWS[kind]
    columns = KIND_ROWS[kind][1] if kind in KIND_ROWS else {}
    good = data.read(kind, {"train": write(tmp_path / "good.jsonl", [row, row])}, columns)
    assert good.counts == {"train": 2}
    bad = write(tmp_path / "bad.jsonl", [row, without(row, place, missing)])
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 2: ") as caught:
        data.read(kind, {"train": bad}, columns, labels=good.labels or None)
    assert "\n" not in str(caught.value)
    assert "NoneType" not in str(caught.value)


def test_a_missing_label_is_no_class_and_a_missing_second_sentence_no_word(tmp_path):
    rows = [
        {"text": "a", "second": None, "label": "x"},
        {"text": "b", "second": None, "label": "y"},
    ]
    hidden = [{"text": "c", "second": None, "label": math.nan}]
    files = {"train": write(tmp_path / "a.jsonl", rows), "test": write(tmp_path / "b.jsonl", hidden)}
    read = data.read("classification", files)
    assert read.labels == ("x", "y")
    assert read.split("test")[0].label is None
    assert [example.second for example in read.split("train")] == [None, None]
