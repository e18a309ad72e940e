"""The scripts of examples/ run as they stand and show what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.usefixtures("one_thread")
def test_lora_weights_learn_to_adapt_to_new_languages(capsys):
    pytest.importorskip("peft")
    pytest.importorskip("babel")
    found = runpy.run_path(str(EXAMPLES / "fewshot_lora.py"))
    assert set(found["accuracies"]) == {"MAML", "FOMAML", "Reptile"}
    for not_meta_trained, before, after in found["accuracies"].values():
        assert 15 < before < 25  # chance: the labels of a task are shuffled
        assert after > before + 30
        assert after > not_meta_trained + 5
    changed = {name for name, p in found["model"].named_parameters() if p.requires_grad}
    assert all("lora_" in name for name in changed)
    assert capsys.readouterr().out.count("\n") == 4
