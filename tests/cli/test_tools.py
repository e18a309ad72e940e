"""The commands around training: list, init, export, predict, doctor, validate, and every --help."""

import csv
import io
import json
import re
import resource
import statistics
import subprocess
import sys

import pytest
import torch
from train_toy import said
from transformers import AutoModel, AutoTokenizer

from gradaccord.cli.app import app, main
from gradaccord.cli.init import starting_file
from gradaccord.methods.registry import METHODS
from gradaccord.recipes import recipe_texts
from gradaccord.tasks.registry import KINDS
from gradaccord.train.config_file import read_config
from gradaccord.train.run import train_run

SMALLER = ["list", "init", "export", "predict", "doctor"]
COMMANDS = [command.name or command.callback.__name__.strip("_") for command in app.registered_commands]


@pytest.fixture(scope="module")
def trained(configured, tmp_path_factory):
    """A finished run that has learned its tasks."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_run(
        configured(train={"steps": 160, "lr": 5e-3, "evaluate_every": 80, "save_every": 160}), folder
    )
    return folder


@pytest.fixture(scope="module")
def exported(trained):
    out = trained.parent / "exported"
    with pytest.raises(SystemExit) as end:
        main(["export", str(trained), "--out", str(out)])
    assert end.value.code == 0
    return out


def shown_by(capsys, *arguments):
    return said(capsys, *arguments, code=0)


# list


def test_list_methods_shows_every_method_with_its_options(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    shown = shown_by(capsys, "list", "methods")
    for name in [*METHODS, "stl", "+smart", "+recadam"]:
        assert name in shown
    assert "inner_steps=" in shown
    assert "compare with paired_sum" in shown


def test_list_tasks_shows_every_kind(capsys):
    shown = shown_by(capsys, "list", "tasks")
    assert all(kind in shown for kind in KINDS)
    assert "pearson" in shown


def test_list_recipes_shows_every_recipe(capsys):
    shown = shown_by(capsys, "list", "recipes")
    assert all(name in shown for name in recipe_texts())


def test_list_data_shows_what_needs_no_files(capsys, monkeypatch):
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    shown = shown_by(capsys, "list", "data")
    assert "cldr/de" in shown
    assert "set GRADACCORD_DATA or give --data" in shown


def test_list_of_something_else_is_one_sentence(capsys):
    assert "use methods, tasks, data, recipes" in said(capsys, "list", "metods")


def test_list_schema_is_json_that_describes_every_key(capsys):
    schema = json.loads(shown_by(capsys, "list", "schema"))
    assert set(schema["properties"]) >= {"model", "tasks", "method", "train", "probe"}
    assert schema["$defs"]["Train"]["properties"]["steps"]["description"] == "Optimiser steps."


# init


KINDS_OF_FILES = [kind for kind in KINDS if kind != "image"]


@pytest.mark.parametrize("kind", [*KINDS, *sorted(recipe_texts())])
def test_every_starting_file_is_a_valid_configuration(kind, tmp_path, capsys):
    assert "Written: " in shown_by(capsys, "init", kind, "--out", tmp_path / "new.yaml")
    config = read_config(tmp_path / "new.yaml")
    if kind in KINDS_OF_FILES:
        assert config.tasks["first"].kind == kind
        assert kind in KINDS
    for task in config.tasks.values():
        assert task.kind is None or task.kind in KINDS


def test_the_starting_file_of_classification_runs(capsys, tmp_path, files, checkpoint):
    """With the user's own files under the names that it gives."""
    text = starting_file("classification", "new.yaml").replace("model: minilm", f"model: {checkpoint}")
    for split in ("train", "dev"):
        rows = (files / f"film.{split}.csv").read_text().replace("text,label", "sentence,label")
        rows = rows.replace(",no", ",negative").replace(",yes", ",positive")
        (tmp_path / f"{split}.csv").write_text(rows)
        text = text.replace(f"{split}: {split}.csv", f"{split}: {tmp_path / split}.csv")
    (tmp_path / "new.yaml").write_text(text)
    shown = shown_by(capsys, "validate", tmp_path / "new.yaml")
    assert "first: classification, 64 train, 16 dev." in shown


PASSAGE = "The bank rates the film. The fox jumps over the dog."
ROWS = {
    "regression": {"sentence1": "the film", "sentence2": "the dog", "score": 2},
    "multiple_choice": {
        "premise": "the film", "question": "cause", "choice1": "a", "choice2": "b", "label": 1,
    },
    "multi_answer": {
        "passage": PASSAGE, "question": "who", "answer": "the fox", "label": True, "group": "1",
    },
    "cloze": {"passage": PASSAGE, "query": "The @placeholder jumps", "entities": ["fox", "dog"],
              "answers": ["fox"]},
    "word_in_context": {"first": "the bank", "second": "a bank", "first_span": [4, 8],
                        "second_span": [2, 6], "label": True},
    "coreference": {"text": "the fox, it jumps", "noun_span": [4, 7], "pronoun_span": [9, 11],
                    "label": True},
    "tagging": "fox\tB-PER\njumps\tO\n\n",
    "masked_lm": PASSAGE + "\n",
    "question_answering": {"question": "who jumps", "context": PASSAGE, "answers": ["fox"]},
}  # fmt: skip


def write_rows(path, rows):
    if isinstance(rows, str):
        path.write_text(rows * 16)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows)
            writer.writeheader()
            writer.writerows([rows] * 16)
    else:
        path.write_text(f"{json.dumps(rows)}\n" * 16)


@pytest.mark.parametrize("kind", ROWS)
def test_the_starting_file_of_a_kind_trains_on_files_as_it_says(kind, capsys, tmp_path, checkpoint):
    text = starting_file(kind, "new.yaml").replace("model: minilm", f"model: {checkpoint}")
    text = text.replace(".json,", ".jsonl,").replace(".json}", ".jsonl}")
    (ending,) = set(re.findall(r"(?:train|dev)\.(\w+)", text))
    for split in ("train", "dev"):
        write_rows(tmp_path / f"{split}.{ending}", ROWS[kind])
        text = text.replace(f"{split}: {split}.", f"{split}: {tmp_path / split}.")
    (tmp_path / "new.yaml").write_text(text)
    options = (
        [] if kind != "question_answering" else ["tasks.first.max_length=32", "tasks.first.stride=4"]
    )
    shown = shown_by(capsys, "validate", tmp_path / "new.yaml", *options)
    assert f"first: {kind}, 16 train, 16 dev." in shown
    assert "of training" in shown


def test_init_without_a_kind_says_which_there_are(capsys):
    wrong = said(capsys, "init")
    assert all(kind in wrong for kind in KINDS)


def test_init_overwrites_nothing_and_knows_near_names(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text("mine")
    exists = said(capsys, "init", "tagging", "--out", tmp_path / "mine.yaml")
    assert "exists: choose another --out" in exists
    assert (tmp_path / "mine.yaml").read_text() == "mine"
    wrong = said(capsys, "init", "taging", "--out", tmp_path / "new.yaml")
    assert "did you mean 'tagging'?" in wrong


# export


def test_auto_model_reads_an_exported_folder(exported, trained):
    trunk = AutoModel.from_pretrained(exported)
    tokenizer = AutoTokenizer.from_pretrained(exported)
    batch = tokenizer(["a good film"], return_tensors="pt")
    with torch.no_grad():
        found = trunk(**batch).last_hidden_state
        expected = AutoModel.from_pretrained(trained / "model")(**batch).last_hidden_state
    assert torch.equal(found, expected)
    assert not list(exported.rglob("*.bin")) + list(exported.rglob("*.pt"))  # safetensors alone


def test_the_model_card_has_the_scores_and_the_settings(exported, trained):
    card = (exported / "README.md").read_text()
    results = json.loads((trained / "results.json").read_text())
    for task, scores in results["dev"].items():
        for metric, value in scores.items():
            assert f"| {task} | {results['kinds'][task]} | dev | {metric} | {value:.2f} |" in card
    assert "method `sum`" in card
    assert "lr: 0.005" in card
    assert f"torch {torch.__version__}" in card


def test_whoever_may_read_the_folder_may_read_the_weights(exported):
    modes = {path.name: path.stat().st_mode for path in exported.iterdir()}
    assert modes["model.safetensors"] == modes["heads.safetensors"] == modes["README.md"]


def test_export_refuses_what_it_cannot_do(exported, trained, tmp_path, capsys):
    full = said(capsys, "export", trained, "--out", exported)
    assert "is not empty: choose another --out" in full
    none = said(capsys, "export", tmp_path, "--out", tmp_path / "out")
    assert "is no run" in none
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.yaml").write_text("")
    begun = said(capsys, "export", tmp_path / "begun", "--out", tmp_path / "out")
    assert "has not finished" in begun
    assert not (tmp_path / "out").exists()


# predict


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
        (["--task", "film", "--file", "missing.txt"], "missing.txt: No such file"),
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


# doctor, validate


def test_doctor_says_what_is_there(capsys, checkpoint):
    shown = shown_by(capsys, "doctor", "--model", checkpoint)
    assert f"torch {torch.__version__}" in shown
    assert "threads of" in shown
    assert f"DotProd on {checkpoint}, automatic step" in shown
    assert "the paper's step 1e-7" in shown


def test_doctor_knows_no_such_model(capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--model", str(tmp_path / "none")])
    assert end.value.code == 2
    assert "none" in capsys.readouterr().err


def test_validate_tries_every_task_and_estimates(capsys, written, tmp_path):
    before = set(tmp_path.iterdir())
    file = written(method="pcgrad", train={"steps": 100})
    shown = shown_by(capsys, "validate", file)
    for task in ("film", "bank", "long"):
        assert f"{task}: a batch of 8x" in shown
    assert "Memory: weights" in shown
    assert "100 steps of" in shown
    assert "300 batch gradients" in shown
    assert set(tmp_path.iterdir()) == before | {file}  # nothing is left behind


def test_validate_answers_a_mistake_with_its_line(capsys, written):
    file = written()
    file.write_text(file.read_text().replace("batch_size: 8", "bach_size: 8"))
    line = file.read_text().splitlines().index("  bach_size: 8") + 1
    wrong = said(capsys, "validate", file)
    assert f"line {line}: train has no key 'bach_size': did you mean 'batch_size'?" in wrong


# help


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_shows_an_example(name, capsys):
    assert (
        f"gradaccord {name}" in shown_by(capsys, name, "--help").split("Usage", 1)[1].split("\n", 2)[2]
    )


@pytest.mark.parametrize("name", ["train", "validate", "compare", "sweep", "report", *SMALLER])
def test_help_is_not_broken_within_a_sentence_at_80_columns(name):
    """Below the first paragraph lines are shown as they stand: longer ones would be broken twice."""
    (command,) = [c for c in app.registered_commands if (c.name or c.callback.__name__) == name]
    shown = command.callback.__doc__.replace("[bold]", "").replace("[/bold]", "")
    assert max(len(line.strip()) for line in shown.splitlines()[1:]) <= 78


def test_help_takes_less_than_half_a_second_of_processor_time():
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "gradaccord", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert statistics.median(seconds) < 0.5  # about 0.25


@pytest.mark.parametrize(
    "start_", ["import gradaccord", "gradaccord --help", "gradaccord train --help"]
)
def test_nothing_heavy_is_imported_before_it_is_needed(start_):
    if start_.startswith("import"):
        code = start_
    else:
        arguments = start_.split()[1:]
        code = (
            "from gradaccord.cli.app import main\n"
            f"try: main({arguments!r})\n"
            "except SystemExit as end: assert end.code == 0"
        )
    heavy = ("torch", "transformers", "matplotlib", "numpy", "scipy", "yaml", "sklearn", "optuna")
    code += f"\nimport sys; found = [m for m in {heavy!r} if m in sys.modules]; assert not found, found"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
