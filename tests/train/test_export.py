"""An exported model: a folder that Hugging Face reads, with a card."""

import json
import shutil

import pytest
import torch
from made_results import made_results
from markdown_it import MarkdownIt
from transformers import AutoModel, AutoTokenizer

from gradaccord.runs.about import About
from gradaccord.runs.results import MethodUsed
from gradaccord.train.export import card, export


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
        beside = results["references"][task]
        assert f" | {beside['chance']:.2f} | {beside['majority']:.2f} | {beside['mark']} |" in card
    assert "method sum, seed" in card
    assert "lr: 0.005" in card
    assert f"torch {torch.__version__}" in card


def test_whoever_may_read_the_folder_may_read_the_weights(exported):
    modes = {path.name: path.stat().st_mode for path in exported.iterdir()}
    assert modes["model.safetensors"] == modes["heads.safetensors"] == modes["README.md"]


def test_nothing_of_the_machine_is_exported(exported, trained):
    """No path and no command: the folder is made to be given away."""
    machine = str(trained.parent.parent)
    assert machine in (trained / "config.yaml").read_text()
    for path in exported.iterdir():
        if path.suffix in (".md", ".json", ".yaml"):
            assert machine not in path.read_text(), path.name
    assert "--out" not in (exported / "README.md").read_text()


def test_names_and_texts_are_text_in_the_card():
    name = "x|y`\n# z <script>alert(1)</script> [a](javascript:b)"
    results = made_results({name: 50.0}).model_copy(
        update={
            "overlaps": [name],
            "method": MethodUsed(**{"name": "sum", name: name}),
            "kinds": {name: name},
        }
    )
    about = About(command=["/home/me/.venv/bin/gradaccord", "train"], versions={"torch": name})
    text = card(results, about, f"a: |\n  ```\n  # z\n  {name}\n", "")
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text.split("---\n", 2)[2])
    assert "<script" not in page
    assert "<a" not in page
    assert page.count("<h1>") == 1
    assert page.count("<tr>") == 2
    assert "/home/me" not in page
    assert "```" in page.split("<code")[-1]  # inside the configuration, which it does not end


def test_a_full_disk_leaves_nothing_and_the_export_can_be_repeated(trained, tmp_path, monkeypatch):
    copied, out = shutil.copy, tmp_path / "exported"

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy", full)
    with pytest.raises(OSError, match=f"{out} cannot be written .No space left on device.: make room"):
        export(trained, out)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(shutil, "copy", copied)
    assert (export(trained, out) / "README.md").exists()
