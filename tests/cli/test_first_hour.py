"""Four files as people have them, a line of YAML each, from `validate` to `predict`."""

import csv
import json
import random

import pytest
from compare_toy import runs_without_processes
from small_models import save_checkpoint
from train_toy import WORDS, shown_by, until

# What would be wrong in each if it were guessed by its ending, and nothing else is said of it.
TASKS = """
model: bert
tasks:
  news: {kind: classification, train: agnews.csv, test: agnews-test.csv, cut: 0.2, header: false, columns: [label, title, text], labels: {1: world, 2: sport, 3: business, 4: science}}
  paws: {train: paws-x.tsv, dev: paws-x-dev.tsv, columns: [_, first, second, label]}
  reviews: {train: german.csv, dev: german-dev.csv}
  likeness: {train: tabs.csv, dev: tabs-dev.csv}
train: {steps: 60, batch_size: 8, lr: 1e-3, evaluate_every: 30, save_every: 5, threads: 1}
probe: {cosine_batches: 1, errors: 2}
"""  # noqa: E501
EVALUATED = {
    "news": "agnews-test.csv", "paws": "paws-x-dev.tsv", "reviews": "german-dev.csv",
    "likeness": "tabs-dev.csv",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files, a model and the configuration, in the current folder."""
    draw = random.Random(0)
    monkeypatch.chdir(tmp_path)

    def words(count):
        return " ".join(draw.choices(WORDS, k=count))

    for name, count in (("agnews.csv", 80), ("agnews-test.csv", 16)):
        with open(name, "w", newline="") as file:
            rows = [
                [str(1 + i % 4), f'{words(2)}, "{words(1)}"', f"{words(5)}, ok"] for i in range(count)
            ]
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    for name, count in (("paws-x.tsv", 48), ("paws-x-dev.tsv", 16)):
        rows = [f'{i}\t"{words(2)}" {words(3)}\t{words(4)}, so\t{i % 2}\n' for i in range(count)]
        (tmp_path / name).write_text("".join(rows))
    for name, count in (("german.csv", 48), ("german-dev.csv", 16)):
        rows = [f"{words(3)}, {words(2)};{('gut', 'schlecht')[i % 2]}\r\n" for i in range(count)]
        (tmp_path / name).write_bytes("".join(["\ufeffText;Label\r\n", *rows]).encode())
    for name, count in (("tabs.csv", 48), ("tabs-dev.csv", 16)):
        rows = [f"{words(3)}, {words(1)}\t{words(3)}\t{draw.random() * 5:.2f}\n" for _ in range(count)]
        (tmp_path / name).write_text("".join(["sentence1\tsentence2\tscore\n", *rows]))
    save_checkpoint(tmp_path / "bert", "bert")
    (tmp_path / "four.yaml").write_text(TASKS)
    return tmp_path


def test_four_ordinary_files_go_the_whole_way(folder, command, capsys):
    shown = shown_by(capsys, "validate", "four.yaml")
    for found in (
        "news, agnews.csv, agnews-test.csv: separator comma, with quotes, no header; first = text, "
        "label = label; not read: title.",
        "paws, paws-x.tsv, paws-x-dev.tsv: separator tab, quotes not special, no header; "
        "first = first, second = second, label = label.",
        "reviews, german.csv, german-dev.csv: separator semicolon, with quotes, a header; "
        "first = Text, label = Label.",
        "likeness, tabs.csv, tabs-dev.csv: separator tab, quotes not special, a header; "
        "first = sentence1, second = sentence2, label = score.",
        "likeness: regression, 48 train, 16 dev.",
        "classes of train: gut 50.0 %, schlecht 50.0 %",
    ):
        assert found in shown

    killed = command("train", "four.yaml", "--out", "run")
    until(lambda: list(folder.glob("run/checkpoints/step-*5")) or killed.poll() is not None)
    killed.kill()
    killed.wait()
    assert not (folder / "run" / "results.json").exists()
    shown = shown_by(capsys, "train", "four.yaml", "--out", "run", "--resume")
    assert "Continued at step" in shown
    results = json.loads((folder / "run" / "results.json").read_text())
    assert results["cards"]["news"]["splits"]["test"]["classes"] == dict.fromkeys(
        ("world", "sport", "business", "science"), 4
    )

    with runs_without_processes():
        shown_by(
            capsys, *("compare", "four.yaml", "train.steps=2", "--methods", "pcgrad", "--seeds", "1"),
            *("--out", "compared"),
        )  # fmt: skip
    for place in ("run", "compared"):
        shown_by(capsys, "report", place)
        page = (folder / place / "report.html").read_text(encoding="utf-8")
        assert "One example as the model sees it" in page
        assert "[CLS]" in page

    shown_by(capsys, "export", "run", "--out", "model")
    for task, file in EVALUATED.items():
        split = "test" if task == "news" else "dev"
        arguments = ("evaluate", "model", "--task", task, "--file", file, "--out", "scores.json")
        assert f"{task} (" in shown_by(capsys, *arguments)
        found = json.loads((folder / "scores.json").read_text())
        scores = {metric: own["value"] for metric, own in found["scores"].items()}
        assert scores == pytest.approx(results[split][task])

    shown_by(
        capsys, *("predict", "model", "--task", "news", "--file", "agnews-test.csv"), "--out", "out.csv"
    )
    with (folder / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert [*rows[0]][:4] == ["label", "title", "text", "prediction"]
    right = sum(row["prediction"] == ("world", "sport", "business", "science")[int(row["label"]) - 1]
                for row in rows)  # fmt: skip
    assert 100 * right / 16 == pytest.approx(results["test"]["news"]["accuracy"])
