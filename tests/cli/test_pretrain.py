"""`gradaccord pretrain`: from texts to a model that other commands take; mistakes end with code 2."""

import json

import pytest
import yaml
from pretrain_toy import content, write_texts
from train_toy import said, shown_by

from gradaccord.pretrain.config import read_pretrain_config


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrain")
    write_texts(folder / "texts")
    (folder / "mine.yaml").write_text(yaml.safe_dump(content("texts")))
    return folder / "mine.yaml"


def test_what_is_pretrained_is_a_model_for_train(file, files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = shown_by(capsys, "pretrain", file, "train.steps=5")
    assert "bert, fresh weights" in shown
    assert "3 languages, 432 texts: " in shown
    assert "held-out loss" in shown
    assert "mean of languages" in shown
    assert "Written: runs/mine/model" in shown
    (tmp_path / "task.yaml").write_text(
        f"tasks: {{film: {{train: {files}/film.train.csv, dev: {files}/film.dev.csv, "
        "columns: {first: text}, max_length: 16}}\ntrain: {steps: 2, threads: 1}\n"
    )
    shown = shown_by(capsys, "train", "task.yaml", "model=runs/mine/model", "--out", "runs/task")
    assert "film" in shown
    assert json.loads((tmp_path / "runs/task/results.json").read_text())["trained"] == ["film"]


def test_a_dry_run_counts_and_estimates_and_writes_no_run(file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = shown_by(capsys, "pretrain", file, "--dry-run", "train.steps=1000")
    assert "tokens in" in shown
    assert "sequences of 32" in shown
    assert "1,000 steps of 8 sequences" in shown
    assert "tokens a second on this machine as it is now: about " in shown
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["texts=none.txt"], "which does not exist"),
        (["texts=empty.txt"], "is empty: fetch it again, or leave it out."),
        (["texts=latin.txt"], "is not UTF-8: convert the file to UTF-8, or set `encoding`."),
        (["tokenizer.size=90000"], "and the texts support "),
        (["model=brt"], "neither a folder nor an architecture"),
        (["train.lr=fast"], "`train.lr` is 'fast'"),
        (["texts=xnli"], "is not known"),
    ],
)
def test_mistakes_end_with_a_sentence(overrides, sentence, file, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes("Straße\nÖl".encode("latin-1"))
    assert sentence in said(capsys, "pretrain", file, *overrides)


def test_its_recipes_are_listed_and_written(tmp_path, capsys):
    assert "in these languages. (for gradaccord pretrain)" in " ".join(
        shown_by(capsys, "list", "recipes").split()
    )
    shown = shown_by(capsys, "init", "multilingual-small", "--out", tmp_path / "mine.yaml")
    assert f"gradaccord pretrain {tmp_path / 'mine.yaml'} --dry-run" in shown
    assert read_pretrain_config(tmp_path / "mine.yaml").length == 128
    wrong = said(capsys, "train", "multilingual-small")
    assert "`gradaccord pretrain multilingual-small`" in wrong
