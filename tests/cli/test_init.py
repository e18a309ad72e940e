"""`gradaccord init`: every starting file is valid, and trains on files as it describes them."""

import csv
import json
import re

import pytest
from train_toy import said, shown_by

from gradaccord.cli.init import starting_file
from gradaccord.recipes import recipe_texts
from gradaccord.tasks.registry import KINDS
from gradaccord.train.config_file import read_config

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
