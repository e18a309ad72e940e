"""A text that is missing (null, NaN, an object) is an error with its place, never the word None."""

from __future__ import annotations

import copy
import json
import math

import pytest
from test_generic import KIND_ROWS, write

from gradaccord import data
from gradaccord.data import hub

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


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_null_in_a_text_is_no_word_whatever_the_format(tmp_path, name):
    rows = [{"text": "fine", "label": "x"}, {"text": None, "label": "y"}]
    with pytest.raises(ValueError, match=rf"{name}, line 2: 'text' is missing: give a text"):
        data.read("classification", {"train": write(tmp_path / name, rows)})


def test_an_empty_cell_that_hugging_face_reads_as_null_is_no_word(tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "set").mkdir()
    (tmp_path / "set/train.csv").write_text("text,label\nfine,0\n,1\n")
    with pytest.raises(ValueError, match=r"set, line 2: 'text' is missing"):
        hub.load(tmp_path / "set", cache=tmp_path / "cache")


def test_an_empty_cell_of_csv_and_tsv_is_an_empty_text(tmp_path):
    for ending, comma in (("csv", ","), ("tsv", "\t")):
        (tmp_path / f"a.{ending}").write_text(f"text{comma}label\n{comma}x\nb{comma}y\n")
        read = data.read("classification", {"train": tmp_path / f"a.{ending}"})
        assert [example.first for example in read.split("train")] == ["", "b"]


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


def test_the_classes_of_a_label_inside_an_object_are_found(tmp_path):
    rows = [{"text": "a", "meta": {"gold": "x"}}, {"text": "b", "meta": {"gold": "y"}}]
    read = data.read(
        "classification", {"train": write(tmp_path / "a.jsonl", rows)}, {"label": "meta.gold"}
    )
    assert read.labels == ("x", "y")


@pytest.mark.parametrize("place", ["question", "context", "text", "answer_start"])
def test_null_in_squads_json_is_one_sentence(tmp_path, place):
    answer = {"text": "Ann", "answer_start": 3}
    asked = {"id": "i", "question": "q", "answers": [answer]}
    paragraph = {"context": "an Ann", "qas": [asked]}
    next(each for each in (answer, asked, paragraph) if place in each)[place] = None
    (tmp_path / "s.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    with pytest.raises(ValueError, match=rf"s\.json: .*'{place}'"):
        data.read("question_answering", {"dev": tmp_path / "s.json"})
