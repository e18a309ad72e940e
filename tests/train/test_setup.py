"""Unseen tasks use a trained head; clusters of a task are tasks; prepared rows stay on disk."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from small_models import train_tokenizer

from gradaccord.data.leakage import overlaps
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.runs.log import read_log
from gradaccord.tasks.prepare import prepare
from gradaccord.tasks.registry import task_for
from gradaccord.train.config import TaskConfig
from gradaccord.train.phase import batches_of
from gradaccord.train.setup import load_dataset

WORDS = "the quick brown fox jumps over a lazy dog and its number"


def test_unseen_tasks_are_judged_by_a_trained_head(content, configured, run):
    tasks = {
        **content["tasks"],
        "unseen": {**content["tasks"]["bank"], "evaluate_only": True, "source": "film"},
    }
    results = run(configured(tasks=tasks))
    assert results.trained == ["film", "bank", "long"]
    assert "unseen" in results.dev


def test_clusters_of_a_task_are_trained_on_as_tasks(content, configured, run, tmp_path):
    tasks = {"film": {**content["tasks"]["film"], "clusters": 2, "batch_size": 4}}
    said = []
    results = run(configured(tasks=tasks, method="pcgrad", train={"steps": 4}), say=said.append)
    assert results.trained == ["film"]
    assert "accuracy" in results.dev["film"]
    records = [r for r in read_log(tmp_path / "run" / "log.jsonl") if r["event"] == "step"]
    assert all(set(record["loss"]) == {"film.1", "film.2"} for record in records)
    assert any(sentence.startswith("Clusters: film.1") for sentence in said)


def _warm_bytes(folder: Path, rows: int, tokens: HuggingFaceTokens) -> int:
    """What Python keeps of a set that was prepared before: read, cut, compared, tokenised, shuffled."""
    file = folder / f"{rows}.csv"
    words = WORDS.split()
    lines = (f"{words[i % 9]} {words[i % 7]} number {i},{('no', 'yes')[i % 2]}" for i in range(rows))
    file.write_text("\n".join(["text,label", *lines]) + "\n")
    config = TaskConfig(files={"train": str(file)}, kind="classification", cut=0.05)

    def load() -> Any:
        dataset = load_dataset("big", config, None)
        prepared = prepare("big", task_for(dataset), dataset, tokens)
        found = list(overlaps([("train", dataset.splits["train"])], [("dev", dataset.splits["dev"])]))
        return dataset, prepared, found, batches_of(prepared, 8, seed=0)

    load()
    gc.collect()
    tracemalloc.start()
    try:
        kept = load()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.9 * rows < len(kept[1].splits["train"]) < rows
    return size


def test_a_warm_start_keeps_nothing_of_the_rows(tmp_path, monkeypatch):
    """Objects of Python; tensors are mapped, but for 8 bytes a row of the order of the batches."""
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))
    tokens = HuggingFaceTokens(train_tokenizer("bert", [WORDS], 100, 64))
    _warm_bytes(tmp_path, 300, tokens)  # what is made once
    small, large = (_warm_bytes(tmp_path, rows, tokens) for rows in (1_000, 5_000))
    assert (large - small) / 4_000 < 10  # bytes a row; 201 where examples are objects


def test_a_warm_start_does_not_read_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "rows.csv"
    file.write_text("text,label\nan old fox,no\na new fox,yes\n")
    config = TaskConfig(files={"train": str(file)}, kind="classification")
    first = load_dataset("one", config, None)

    def read(*arguments, **options):
        raise LookupError("it is read")

    monkeypatch.setattr("gradaccord.train.setup.read", read)
    again = load_dataset("other", config, None)
    assert list(again.splits["train"]) == list(first.splits["train"])
    assert (again.name, again.labels) == ("other", ("no", "yes"))
    with pytest.raises(LookupError, match="it is read"):
        load_dataset("one", TaskConfig(files={"dev": str(file)}, kind="classification"), None)
