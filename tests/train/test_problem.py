"""Unseen tasks use a trained head; clusters are tasks; frozen and adapted parts; rows stay on disk."""

import gc
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import TEXTS, save_checkpoint, train_tokenizer
from train_toy import said, same, weights
from transformers import AutoModel

from gradaccord.core.bank import Bank
from gradaccord.core.parameters import Parameters
from gradaccord.data.leakage import overlaps
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.runs.checkpoints import load as load_checkpoint
from gradaccord.runs.log import read_log
from gradaccord.tasks.evaluation import evaluate
from gradaccord.tasks.prepare import prepare
from gradaccord.tasks.registry import task_for
from gradaccord.tasks.saved_models import load
from gradaccord.train.config import TaskConfig
from gradaccord.train.phase import batches_of
from gradaccord.train.problem import load_dataset, load_problem
from gradaccord.train.run import seed_everything

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
    sentences = []
    results = run(configured(tasks=tasks, method="pcgrad", train={"steps": 4}), say=sentences.append)
    assert results.trained == ["film"]
    assert "accuracy" in results.dev["film"]
    records = [r for r in read_log(tmp_path / "run" / "log.jsonl") if r["event"] == "step"]
    assert all(set(record["loss"]) == {"film.1", "film.2"} for record in records)
    assert any(sentence.startswith("Clusters: film.1") for sentence in sentences)


def frozen_names(model, parts):
    """Of the weights in these parts of the toy checkpoint, a BERT with two layers."""
    prefixes = {"embeddings": "trunk.model.embeddings.", "layer 0": "trunk.model.encoder.layer.0."}
    prefixes["trunk"] = "trunk."
    chosen = tuple(prefixes[part] for part in parts)
    return {name for name in model if name.startswith(chosen)}


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("pcgrad", ["embeddings", "layer 0"]),
        ("pcgrad", ["trunk"]),
        ({"name": "dotprod", "mode": "difference"}, ["embeddings", "layer 0"]),
        ({"name": "sequential_reptile", "inner_steps": 5}, ["embeddings", "layer 0"]),
    ],
)
def test_frozen_weights_stay_cost_nothing_and_resume_bit_equal(
    method, parts, configured, content, checkpoint, run, interrupted, tmp_path, monkeypatch
):
    model = {"name": str(checkpoint), "freeze": ", ".join(parts)}
    config = configured(model=model, method=method)
    assert config.model.freeze == parts
    start = load_problem(config).model
    positions = Parameters.of(start).names
    reached = []
    add = Bank.add

    def recorded(bank, task, gradients, *rest):
        reached.append({n for n, g in zip(positions, gradients, strict=True) if g is not None})
        add(bank, task, gradients, *rest)

    monkeypatch.setattr(Bank, "add", recorded)
    run(config, "whole")
    trained = weights(tmp_path / "whole")
    frozen = frozen_names(trained, parts)
    assert frozen
    for name in frozen:
        assert torch.equal(trained[name], start.state_dict()[name]), name
    assert any(not torch.equal(trained[n], v) for n, v in start.state_dict().items() if n not in frozen)
    assert reached
    assert not any(names & frozen for names in reached)  # none is in a bank
    (newest,) = sorted((tmp_path / "whole" / "checkpoints").glob("step-*"))[-1:]
    optimizer = load_checkpoint(newest)["optimizer"]
    unfrozen = [p for p in start.parameters() if p.requires_grad]
    assert sum(len(group["params"]) for group in optimizer["param_groups"]) == len(unfrozen)
    assert len(optimizer["state"]) <= len(unfrozen)

    interrupted(config, "broken", after=7)
    run(config, "broken", resume=True)
    assert same(trained, weights(tmp_path / "broken"))


def test_parts_as_they_are_written_and_what_is_wrong_with_them(configured, written, capsys):
    several = {"name": "x", "freeze": ["embeddings, layer 0", "layers 2-3"]}
    assert configured(model=several).model.freeze == ["embeddings", "layer 0", "layers 2-3"]
    wrong = said(capsys, "validate", written(), "model.freeze=layers 0-9")
    assert (
        "`model.freeze` names 'layers 0-9': the parts of this model are embeddings, layers 0-1" in wrong
    )
    wrong = said(capsys, "validate", written(), "model.freeze=3")
    assert "`model.freeze` is 3" in wrong
    wrong = said(capsys, "validate", written(), "model.lora={rank: 8}")
    assert "model.lora has no key 'rank'" in wrong
    wrong = said(capsys, "validate", written(), "model.lora.r=0")
    assert "`model.lora.r` is 0" in wrong


def test_lora_trains_adapters_resumes_bit_equal_and_is_saved_as_a_plain_model(
    configured, run, interrupted, tmp_path
):
    checkpoint = save_checkpoint(tmp_path / "mlm", "bert", head=True)
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS * 4))
    model = {
        "name": str(checkpoint), "freeze": ["layer 0"],
        "lora": {"r": 2, "lora_alpha": 4, "lora_dropout": 0.1, "target_modules": ["query", "dense"]},
    }  # fmt: skip
    probe = {"masked_lm": {"seen": str(tmp_path / "lines.txt")}, "cosine_batches": 2}
    config = configured(model=model, method="pcgrad", train={"lr": 1e-2}, probe=probe)
    sentences = []
    results = run(config, "whole", say=sentences.append)
    assert any("M of them trained" in sentence for sentence in sentences)
    seed_everything(config.train.seed)
    trained, start = weights(tmp_path / "whole"), load_problem(config).model.state_dict()
    moved = {n for n in trained if not torch.equal(trained[n], start[n]) and n.startswith("trunk.")}
    assert moved
    assert all("lora_" in name and ".layer.1." in name for name in moved)
    interrupted(config, "broken", after=7)
    again = run(config, "broken", resume=True)
    assert same(trained, weights(tmp_path / "broken"))
    assert again.dev == results.dev

    merged = AutoModel.from_pretrained(tmp_path / "whole" / "model").state_dict()
    plain = AutoModel.from_pretrained(checkpoint).state_dict()
    assert merged.keys() == plain.keys()
    plain = {name: value for name, value in plain.items() if "pooler" not in name}  # drawn anew
    squares = [float((merged[n].double() - plain[n].double()).square().sum()) for n in plain]
    differing = {n for n, square in zip(plain, squares, strict=True) if square}
    assert differing
    assert all("layer.1." in name for name in differing)
    # The probes saw the same merged weights, at the best step.
    (best,) = [e for e in results.evaluations if e.step == results.best_step]
    assert best.distance.total == pytest.approx(sum(squares) ** 0.5, rel=1e-4)
    assert results.evaluations[0].masked_lm != results.evaluations[1].masked_lm
    # And the saved model answers as the trained one did.
    network, _, tasks = load(tmp_path / "whole" / "model")
    film = load_problem(config).prepared["film"]
    found = evaluate(network, "film", tasks["film"], film.splits["dev"], film.encoded["dev"])
    assert found.scores == pytest.approx(results.dev["film"])


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

    monkeypatch.setattr("gradaccord.train.problem.read", read)
    again = load_dataset("other", config, None)
    assert list(again.splits["train"]) == list(first.splits["train"])
    assert (again.name, again.labels) == ("other", ("no", "yes"))
    with pytest.raises(LookupError, match="it is read"):
        load_dataset("one", TaskConfig(files={"dev": str(file)}, kind="classification"), None)


def _cold_peak(folder: Path, rows: int) -> int:
    """The most that Python holds at a time while a set is read for the first time, cut and compared."""
    file = folder / f"{rows}.csv"
    lines = (f"{WORDS} {i},{('no', 'yes')[i % 2]}" for i in range(rows))
    file.write_text("\n".join(["text,label", *lines]) + "\n")
    config = TaskConfig(files={"train": str(file)}, cut=0.05)
    gc.collect()
    tracemalloc.start()
    try:
        splits = load_dataset("big", config, None).splits
        list(overlaps([("train", splits["train"])], [("dev", splits["dev"])]))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_first_reading_holds_a_block_of_the_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("gradaccord.data.files.growing.IN_MEMORY", 2**16)
    _cold_peak(tmp_path, 300)  # what is made once
    small, large = (_cold_peak(tmp_path, rows) for rows in (10_000, 30_000))
    assert (large - small) / 20_000 < 20  # bytes a row; hashes of 8 are kept of ids and cut texts


def test_two_processes_at_once_read_a_file_once(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "rows.csv"
    lines = (f"{WORDS} {i},{('no', 'yes')[i % 2]}" for i in range(20_000))
    file.write_text("\n".join(["text,label", *lines]) + "\n")
    code = """
import sys
from gradaccord.core.watch import Watch
from gradaccord.train import problem
from gradaccord.train.config import TaskConfig

plain = problem.read
problem.read = lambda *given, **options: print("reading", flush=True) or plain(*given, **options)
config = TaskConfig(files={"train": sys.argv[1]}, cut=0.1)
print("ready", flush=True)
sys.stdin.readline()
splits = problem.load_dataset("rows", config, None, Watch()).splits
print({split: len(own) for split, own in splits.items()}, splits["dev"].identity,
      splits["train"][7].first, flush=True)
"""
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate()[0].splitlines() for one in both]
    assert sorted(len(own) for own in said) == [1, 2]  # one of them read
    assert said[0][-1] == said[1][-1]
    assert not [*(tmp_path / "cache").glob("*.part")]
