"""`gradaccord evaluate`: a labelled file in, scores with intervals, confusions and errors out."""

import csv
import json

import pytest
from train_toy import said, shown_by


@pytest.fixture
def rows(files):
    with (files / "film.dev.csv").open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_scores_are_those_of_the_run(trained, exported, files, tmp_path, capsys):
    results = json.loads((trained / "results.json").read_text())
    for model in (trained, exported):
        for task, kind in (("film", "classification"), ("long", "regression")):
            out = tmp_path / f"{task}.json"
            arguments = ["evaluate", model, "--task", task, "--file", files / f"{task}.dev.csv"]
            shown = shown_by(capsys, *arguments, "--out", out)
            found = json.loads(out.read_text())
            assert (found["kind"], found["examples"], found["unlabelled"]) == (kind, 16, 0)
            for metric, value in results["dev"][task].items():
                own = found["scores"][metric]
                assert own["value"] == pytest.approx(value)
                assert own["low"] <= own["value"] <= own["high"]
                assert own["resamples"] >= 100
                assert f"{value:.2f}" in shown
            known = results["references"][task]
            assert found["reference"] | {"split": "dev"} == known
            assert found["errors"]["wrong"] == results["errors"][task]["wrong"]
            assert max(map(len, shown.partition("Written")[0].splitlines())) <= 80


def test_confusions_and_the_worst_first(trained, tmp_path, capsys, rows):
    """Half of the labels are turned round, so that a good model is wrong there."""
    other = {"yes": "no", "no": "yes"}
    turned = [[text, other[label] if i < 8 else label] for i, (text, label) in enumerate(rows)]
    with (tmp_path / "in.tsv").open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([["stars", "note", "review"]])
        csv.writer(file, delimiter="\t").writerows([[label, "x", text] for text, label in turned])
    arguments = ["evaluate", trained, "--task", "film", "--file", tmp_path / "in.tsv"]
    arguments += ["--columns", "first=review,label=stars", "--worst", "3"]
    shown = shown_by(capsys, *arguments, "--out", tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text())["errors"]
    counts = found["confusion"]["counts"]
    assert sum(map(sum, counts)) == 16
    assert counts[0][1] + counts[1][0] == found["wrong"] > 0
    losses = [one["by"] for one in found["worst"]]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    assert f"{found['wrong']} of 16 are wrong; the furthest off:" in shown
    assert "Truth by row, prediction by column:" in shown
    shown_by(capsys, *arguments, "--out", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        table = {row["metric"]: row for row in csv.DictReader(file)}
    assert table.keys() == {"accuracy", "f1"}
    assert float(table["accuracy"]["percent"]) == 100 * (16 - found["wrong"]) / 16
    assert float(table["accuracy"]["chance"]) == 50


def test_a_file_without_a_header(trained, tmp_path, capsys, rows):
    lines = [";".join([str(i), label, text]) for i, (text, label) in enumerate(rows)]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    arguments = ["evaluate", trained, "--task", "film", "--file", tmp_path / "in.csv"]
    shown = shown_by(capsys, *arguments, "--columns", "_,label,text")
    assert "film (classification): 16 examples" in shown.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "more", "sentence"),
    [
        ("text,label\na,yes\n", [], "choose one with --task"),
        ("text,label\na,maybe\n", ["--task", "film"], "line 2: the label 'maybe' is not one of 0..1"),
        ("text,other\na,b\n", ["--task", "film"], "no example has a label: name its column"),
        ("text,label\na,yes\n", ["--task", "film", "--out", "a.txt"], "ends in .json or .csv"),
        ("what,label\na,yes\n", ["--task", "film"], "line 1: there is no column 'text'"),
        (None, ["--task", "film"], "No such file"),
    ],
)
def test_a_mistake_is_one_sentence(trained, tmp_path, capsys, text, more, sentence):
    if text is not None:
        (tmp_path / "in.csv").write_text(text)
    assert sentence in said(capsys, "evaluate", trained, "--file", tmp_path / "in.csv", *more)
