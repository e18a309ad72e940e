"""`gradaccord predict`: texts, objects, files and standard input in, JSON lines out."""

import csv
import io
import json

import pytest
from train_toy import said, shown_by


def answers(printed):
    return [json.loads(line)["prediction"] for line in printed.splitlines()]


def test_predict_takes_texts_objects_and_files(trained, exported, files, tmp_path, capsys):
    with (files / "film.dev.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    texts = [row["text"] for row in rows]
    all_ = answers(shown_by(capsys, "predict", trained, "--task", "film", *texts))
    right = sum(answer == row["label"] for answer, row in zip(all_, rows, strict=True))
    results = json.loads((trained / "results.json").read_text())
    assert 100 * right / len(rows) == pytest.approx(results["dev"]["film"]["accuracy"])
    assert set(all_) == {"yes", "no"}

    texts, found = texts[:2], all_[:2]
    objects = [json.dumps({"first": text}) for text in texts]
    assert answers(shown_by(capsys, "predict", exported, "--task", "film", *objects)) == found
    (tmp_path / "in.txt").write_text(f"{texts[0]}\n\n{objects[1]}\n")
    out = tmp_path / "out.jsonl"
    arguments = ["predict", exported, "--task", "film", "--file", tmp_path / "in.txt"]
    assert "Written: " in shown_by(capsys, *arguments, "--out", out)
    assert answers(out.read_text()) == found
    assert [json.loads(line)["input"] for line in out.read_text().splitlines()] == [
        texts[0],
        {"first": texts[1]},
    ]


def test_predict_reads_the_standard_input(trained, capsys, monkeypatch):
    texts = ["the film", "the bank"]
    expected = answers(shown_by(capsys, "predict", trained, "--task", "film", *texts))
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts) + "\n"))
    assert answers(shown_by(capsys, "predict", trained, "--task", "film", "--file", "-")) == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "is empty" in said(capsys, "predict", trained, "--task", "film", "--file", "-")


def test_predict_a_number_for_a_text(trained, capsys):
    (value,) = answers(shown_by(capsys, "predict", trained, "--task", "long", "the fox"))
    assert isinstance(value, float)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a text"], "choose one with --task"),
        (["--task", "fil", "a text"], "has no task 'fil': it has film, bank, long"),
        (["--task", "film"], "needs texts or --file"),
        (
            ["--task", "film", "--file", "missing.txt"],
            "missing.txt cannot be read (FileNotFoundError: No such file",
        ),
        (["--task", "film", '{"first": '], "is not JSON"),
        (["--task", "film", '{"second": "a"}'], "The input, line 1: there is no column 'text'"),
        (["--task", "film", '{"first": ["a"]}'], "'first' is of the type list: give a text"),
    ],
)
def test_predict_answers_a_mistake_with_one_sentence(trained, capsys, arguments, sentence):
    assert sentence in said(capsys, "predict", trained, *arguments)


def test_predict_names_the_line_of_a_file(trained, tmp_path, capsys):
    (tmp_path / "in.txt").write_text('a text\n{"first"\n')
    arguments = ["predict", trained, "--task", "film", "--file", tmp_path / "in.txt"]
    assert "in.txt, line 2 is not JSON" in said(capsys, *arguments)
    (tmp_path / "in.txt").write_text("\n")
    assert "is empty" in said(capsys, *arguments)
    (tmp_path / "in.txt").write_bytes(b"\xff\xfe\x00")
    assert "in.txt" in said(capsys, *arguments)


def test_predict_without_a_model_is_one_sentence(tmp_path, capsys):
    assert str(tmp_path / "none") in said(capsys, "predict", tmp_path / "none", "a text")
    assert str(tmp_path) in said(capsys, "predict", tmp_path, "a text")
