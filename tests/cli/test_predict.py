"""`gradaccord predict`: texts, objects, files and standard input in, JSON lines or a table out."""

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
        (["--task", "film"], "needs either texts or --file"),
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


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_table_keeps_its_columns_and_gains_predictions(trained, tmp_path, capsys, ending):
    rows = [["7", "the film, it", 'a "note"'], ["8", "the bank", "b"]]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([["no.", "said", "remark"], *rows])
    arguments = ["predict", trained, "--task", "film", "--file", tmp_path / "in.csv"]
    arguments += ["--columns", "first=said"]
    out = tmp_path / f"out.{ending}"
    shown_by(capsys, *arguments, "--out", out)
    with out.open(newline="") as file:
        table = list(csv.reader(file, delimiter="\t" if ending == "tsv" else ","))
    assert table[0] == ["no.", "said", "remark", "prediction", "p(no)", "p(yes)"]
    lines = [json.loads(line) for line in shown_by(capsys, *arguments).splitlines()]
    for line, row, found in zip(lines, rows, table[1:], strict=True):
        assert line["input"] == dict(zip(table[0], row, strict=False))
        assert found[:4] == [*row, line["prediction"]]
        likely = dict(zip(("no", "yes"), map(float, found[4:]), strict=True))
        assert likely == line["probabilities"]
        assert sum(likely.values()) == pytest.approx(1, abs=1e-5)
        assert max(likely, key=likely.get) == line["prediction"]
    again = ["predict", trained, "--task", "film", "--file", out, "--columns", "first=said"]
    assert "has a column 'prediction'" in said(capsys, *again, "--out", tmp_path / "twice.csv")


def test_a_file_without_a_header_is_asked_by_names_in_order(trained, tmp_path, capsys):
    (tmp_path / "in.tsv").write_text("1\tthe film\n2\tthe bank\n")
    arguments = ["predict", trained, "--task", "film", "--file", tmp_path / "in.tsv"]
    assert "there is no column 'text'" in said(capsys, *arguments)
    asked = [*arguments, "--no-header", "--columns", "key,text"]
    lines = [json.loads(line) for line in shown_by(capsys, *asked).splitlines()]
    assert [line["input"] for line in lines] == [
        {"key": "1", "text": "the film"},
        {"key": "2", "text": "the bank"},
    ]
    assert "--columns is 'a=b,c'" in said(capsys, *arguments, "--columns", "a=b,c")


def test_the_name_of_a_file_is_not_taken_for_a_text(trained, tmp_path, capsys):
    path = tmp_path / "in.txt"
    path.write_text("a text\n")
    assert f"is a file, not a text: give it as --file {path}." in said(
        capsys, "predict", trained, "--task", "film", str(path)
    )
