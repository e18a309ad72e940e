"""`files.own_files`: every format of own files, and what is wrong with them."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest
from data_files import write

from gradaccord import data
from gradaccord.data.examples import (
    Text,
)

ROWS = [
    {"review": "so, so", "stars": "bad", "key": "a"},
    {"review": 'said "wow"', "stars": "good", "key": "b"},
]


EXPECTED = [Text("so, so", None, 0, "a"), Text('said "wow"', None, 1, "b")]


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "a.jsonl.gz"]
)
def test_every_format_gives_the_same_examples(tmp_path, name):
    path = write(tmp_path / name, ROWS)
    columns = {"first": "review", "label": "stars", "id": "key"}
    dataset = data.read("classification", {"train": path}, columns, name="mine")
    assert dataset.splits == {"train": EXPECTED}
    assert (dataset.name, dataset.labels) == ("mine", ("bad", "good"))
    swapped = data.read("classification", {"train": str(path)}, columns, labels=["good", "bad"])
    assert [e.label for e in swapped.split("train")] == [1, 0]


def test_several_files_usual_names_and_pairs(tmp_path):
    one = write(tmp_path / "1.jsonl", [{"sentence1": "a", "sentence2": "b", "label": 1}])
    two = write(tmp_path / "2.jsonl", [{"sentence1": "c", "sentence2": "d", "label": 0}])
    hidden = write(tmp_path / "3.jsonl", [{"sentence1": "e", "sentence2": "f"}])
    pairs = data.read("classification", {"train": [one, two], "validation": two, "test": hidden})
    assert pairs.counts == {"train": 2, "dev": 1, "test": 1}
    assert pairs.labels == ("0", "1")
    assert pairs.options == {"pair": "cross"}
    assert pairs.split("test")[0].label is None
    values = data.read("regression", {"train": [one, two]})
    assert [e.label for e in values.split("train")] == [1.0, 0.0]
    assert values.labels == ()


def test_a_table_without_header(tmp_path):
    (tmp_path / "a.tsv").write_text("x\t1\ty\nz\t0\tw\n")
    dataset = data.read(
        "classification",
        {"train": tmp_path / "a.tsv"},
        {"first": "0", "second": "2", "label": "1"},
        header=False,
    )
    assert dataset.split("train")[0] == Text("x", "y", 1, "train-1")


def test_conll_files(tmp_path):
    (tmp_path / "a.conll").write_text("1 in O\n2 Ulm B-LOC\n\n1 # O\n")
    dataset = data.read("tagging", {"train": tmp_path / "a.conll"}, {"words": "1", "tags": "2"})
    assert dataset.split("train")[0].words == ("in", "Ulm")
    assert dataset.split("train")[1].words == ("#",)
    assert dataset.labels == ("LOC",)
    (tmp_path / "b.txt").write_text("Ulm\tI-LOC\n")
    with pytest.raises(ValueError, match=r"b\.txt, line 1: the tag 'I-LOC' cannot follow 'O'"):
        data.read("tagging", {"train": tmp_path / "b.txt"})
    mended = data.read("tagging", {"train": tmp_path / "b.txt"}, iob="repair")
    assert mended.split("train")[0].tags == ("B-LOC",)
    assert sum(mended.notes.values()) == 1


def test_plain_lines(tmp_path):
    (tmp_path / "a.txt").write_text("eins\n\nzwei\n")
    assert [e.text for e in data.read("masked_lm", {"test": tmp_path / "a.txt"}).split("test")] == [
        "eins",
        "zwei",
    ]


JSONL = '{"sentence": "a", "label": "x"}\n'


BAD = {
    "unknown kind": (("clasification", "a.jsonl", JSONL), {}, "did you mean 'classification'?"),
    "no such field": (
        ("classification", "a.jsonl", JSONL),
        {"columns": {"body": "sentence"}},
        "field 'body'",
    ),
    "missing column": (
        ("classification", "a.jsonl", JSONL),
        {"columns": {"first": "review"}},
        "a.jsonl, line 1: there is no column 'review'; the columns are: sentence, label.",
    ),
    "nothing to read": (("classification", "a.jsonl", '{"x": 1}\n'), {}, "no column 'first'"),
    "no label in train": (
        ("classification", "a.jsonl", '{"sentence": "a"}\n'),
        {},
        "no column 'label'",
    ),
    "empty label": (
        ("classification", "a.csv", "sentence,label\na,x\nb,\n"),
        {},
        "line 3: the label is missing",
    ),
    "unknown label": (
        ("classification", "a.jsonl", JSONL),
        {"labels": ["y", "z"]},
        "a.jsonl, line 1: the label 'x' is not one of 0..1 or y, z.",
    ),
    "label out of range": (
        ("classification", "a.csv", "sentence,label\na,2\n"),
        {"labels": ["y", "z"]},
        "a.csv, line 2: the label '2' is not one of 0..1",
    ),
    "choice out of range": (
        ("multiple_choice", "a.jsonl", '{"premise": "p", "choices": ["a", "b"], "label": 2}\n'),
        {},
        "line 1: the label 2 is not one of 0..1",
    ),
    "not a number": (
        ("regression", "a.csv", "sentence,label\na,high\n"),
        {},
        "the value 'high' is not a number",
    ),
    "ragged": (
        ("classification", "a.csv", "sentence,label\na\n"),
        {},
        "a.csv, line 2: 1 columns where there should be 2",
    ),
    "quotes": (("classification", "a.csv", 'sentence,label\n"a"b,1\n'), {}, "a.csv, line 2: not CSV"),
    "twice": (("classification", "a.csv", "label,label\na,1\n"), {}, "two columns have the same name"),
    "format": (("classification", "a.xls", "x"), {}, "does not end in a known format"),
    "parquet": (("classification", "a.parquet", "PAR1 no"), {}, "a.parquet cannot be read"),
    "json": (("classification", "a.json", '{"a": 1}'), {}, "not a JSON list of objects"),
    "encoding": (
        ("classification", "a.csv", "sentence,label\né,1\n".encode("latin-1")),
        {},
        "line 2: the byte 0xe9",
    ),
    "empty": (("classification", "a.csv", ""), {}, "is empty"),
    "header alone": (("classification", "a.csv", "sentence,label\n"), {}, "holds no row"),
    "answer": (
        ("question_answering", "a.jsonl", '{"question": "q", "context": "c", "answers": "Ann"}\n'),
        {},
        "line 1, question 'train-1': the answer 'Ann' is not at character -1",
    ),
    "span": (
        (
            "coreference",
            "a.jsonl",
            '{"text": "t", "noun_span": [0, 9], "pronoun_span": [0, 1], "label": 1}\n',
        ),
        {},
        "line 1: [0, 9] is not a start and an end",
    ),
    "tags": (
        ("tagging", "a.jsonl", '{"words": ["a"], "tags": ["O", "O"]}\n'),
        {},
        "line 1: 1 words and 2 tags",
    ),
    "iob": (
        ("tagging", "a.jsonl", '{"words": ["a"], "tags": ["I-PER"]}\n'),
        {},
        "line 1: the tag 'I-PER' cannot follow 'O'",
    ),
    "entity type": (
        ("tagging", "a.jsonl", '{"words": ["a"], "tags": ["B-GPE"]}\n'),
        {"labels": ["PER"]},
        "line 1: the tag 'B-GPE' is not O, or B- or I- with one of PER",
    ),
    "conll columns": (
        ("tagging", "a.conll", "a\tO\n"),
        {"columns": {"words": "form"}},
        "are numbers, from 0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, case):
    (kind, name, content), options, message = BAD[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        data.read(kind, {"train": path}, **options)
    assert "\n" not in str(caught.value)


def test_wrong_arguments(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"sentence": "a", "label": 0}])
    with pytest.raises(ValueError, match="the split 'held'"):
        data.read("classification", {"held": path})
    with pytest.raises(ValueError, match="`files` is empty"):
        data.read("classification", {})
    with pytest.raises(FileNotFoundError, match="No such file"):
        data.read("classification", {"train": tmp_path / "none.csv"})
    with pytest.raises(ValueError, match="`format` is 'xml'"):
        data.read("classification", {"train": path}, format="xml")


def test_classes_that_are_numbers_are_read_by_name(tmp_path: Path) -> None:
    stars = [{"text": f"review {n}", "label": n} for n in (1, 5, 3, 2, 4)]
    for ending in ("csv", "jsonl"):
        read = data.read("classification", {"train": write(tmp_path / f"stars.{ending}", stars)})
        assert read.labels == ("1", "2", "3", "4", "5")
        assert [example.label for example in read.split("train")] == [0, 4, 2, 1, 3]
    file = write(tmp_path / "none.jsonl", [{"text": "a", "label": 0}])
    with pytest.raises(ValueError, match=r"line 1: the label '0' is not one of 1, 2\.$"):
        data.read("classification", {"train": file}, labels=["1", "2"])


def test_the_classes_of_a_label_inside_an_object_are_found(tmp_path):
    rows = [{"text": "a", "meta": {"gold": "x"}}, {"text": "b", "meta": {"gold": "y"}}]
    read = data.read(
        "classification", {"train": write(tmp_path / "a.jsonl", rows)}, {"label": "meta.gold"}
    )
    assert read.labels == ("x", "y")


def test_labels_of_more_digits_than_python_reads_are_names(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(f"text,label\ngood,{'9' * 5000}\nbad,1\n")
    assert data.read("classification", {"train": file}).labels == ("1", "9" * 5000)
    with pytest.raises(ValueError) as raised:
        data.read("regression", {"train": file}, columns={"first": "text", "score": "label"})
    assert len(str(raised.value)) < 300


def test_rows_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    """A fault far down a file is not met by one who takes the first rows, whatever the format."""
    (tmp_path / "a.csv").write_text("text,label\n" + "fine,x\n" * 50_000 + "one,two,three\n")
    (tmp_path / "a.jsonl").write_text('{"text": "fine", "label": "x"}\n' * 50_000 + "no JSON\n")
    for name, fault in (("a.csv", "a.csv, line 50002: 3 columns"), ("a.jsonl", "line 50001: not JSON")):
        given = {"files": {"train": tmp_path / name}, "labels": {"x": "x"}}
        first = data.read("classification", **given, keep=lambda examples: list(islice(examples, 3)))
        assert [example.id for example in first.split("train")] == [
            f"train-{line}" for line in ((2, 3, 4) if name == "a.csv" else (1, 2, 3))
        ]
        with pytest.raises(ValueError, match=fault):
            data.read("classification", **given)
