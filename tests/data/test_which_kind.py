"""`files.which_kind`: what is learned is found by the columns and labels of own files."""

from __future__ import annotations

import json

import pytest
from data_files import KIND_ROWS, squad, write

from gradaccord import data

FOUND = ["multiple_choice", "question_answering", "tagging", "summarization"]


@pytest.mark.parametrize("kind", FOUND)
def test_the_columns_tell_the_kind(tmp_path, kind):
    row, columns, example = KIND_ROWS[kind]
    read = data.read(None, {"train": write(tmp_path / "a.jsonl", [row])}, columns)
    assert read.kind == kind
    assert read.split("train") == [example]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (("1", "2"), "classification"),
        (("1.0", "2.0"), "classification"),
        (("good", "bad"), "classification"),
        (("1", "2.5"), "regression"),
        (("0.25", "good"), "classification"),
    ],
)
def test_fractions_are_a_regression(tmp_path, labels, kind):
    rows = [{"review": "a", "stars": label} for label in labels]
    path = write(tmp_path / "a.csv", rows)
    assert data.read(None, {"train": path}).kind == kind
    assert data.read(None, {"train": path}, {"first": "review", "label": "stars"}).kind == kind
    assert data.read(None, {"train": path}, ["first", "label"]).kind == kind


def test_files_with_a_form_of_their_own(tmp_path):
    (tmp_path / "a.conll").write_text("Ulm\tB-LOC\n")
    assert data.read(None, {"train": tmp_path / "a.conll"}).kind == "tagging"
    (tmp_path / "a.json").write_text(squad(("q", "who?", [("Ann", 0)]), context="Ann"))
    assert data.read(None, {"train": tmp_path / "a.json"}).kind == "question_answering"


def test_the_text_is_called_text_in_columns_too(tmp_path):
    rows = [
        {"id": n, "note": f"a text of some length, number {n}", "queue": "ab"[n % 2]} for n in range(9)
    ]
    path = write(tmp_path / "a.csv", rows)
    sentence = r"do not tell the kind of task: .*such as columns: \{text: note, label: queue\}\."
    with pytest.raises(ValueError, match=sentence):
        data.read(None, {"train": path})
    read = data.read(None, {"train": path}, {"text": "note", "label": "queue"})
    assert read.kind == "classification"
    assert read.split("train")[1].first == rows[1]["note"]
    named = data.read("classification", {"train": path}, {"text": "note", "label": "queue"})
    assert list(named.split("train")) == list(read.split("train"))


def test_columns_without_a_header_are_proposed_by_number(tmp_path):
    path = tmp_path / "a.csv"
    lines = [f'"{n % 4 + 1}","Title {n}, more","A longer text, with number {n}"' for n in range(9)]
    path.write_text("\n".join(lines))
    sentence = r"a\.csv: its 3 columns have no names .*, such as columns: \{text: 2, label: 0\}\.$"
    with pytest.raises(ValueError, match=sentence):
        data.read(None, {"train": path})
    read = data.read(None, {"train": path}, {"text": "2", "label": "0"})
    assert len(read.split("train")) == 9
    assert read.labels == ("1", "2", "3", "4")


def test_what_tells_nothing_is_asked_for(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a"}) + "\n")
    sentence = r"a\.jsonl: the columns \(text\) do not tell the kind of task: give `kind`"
    with pytest.raises(ValueError, match=sentence):
        data.read(None, {"train": tmp_path / "a.jsonl"})
