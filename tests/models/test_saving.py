"""A saved model: the same outputs, a trunk that Hugging Face reads, and files that fail in words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from small_models import save_checkpoint

from gradaccord.data.examples import Text
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.tasks.kinds.classification import Classification
from gradaccord.tasks.saved_models import load, save

pytest.importorskip("transformers")

EXAMPLES = [Text("A good film.", label=1, id="0"), Text("A bad dog over the bank", label=0, id="1")]
TASK = Classification(("no", "yes"), head="hidden")


def new_model(folder: Path):
    trunk, tokens = load_trunk(folder, pooling="mean")
    heads = {"shared": TASK.new_head(trunk), "xnli.de": Classification(("a", "b", "c")).new_head(trunk)}
    model = MultiTaskModel(
        trunk, heads, {"en": "shared", "sw": "shared", "xnli.de": "xnli.de", "zero": "xnli.de"}
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    return model.eval(), tokens


TASKS = {"en": TASK, "sw": TASK, "xnli.de": Classification(("a", "b", "c")),
         "zero": Classification(("a", "b", "c"), max_length=9)}  # fmt: skip


@pytest.fixture(params=["bert", "roberta", "electra", "pegasus", "t5"])
def made(request, tmp_path):
    return new_model(save_checkpoint(tmp_path / "start", request.param))


@pytest.fixture
def bert(tmp_path):
    model, tokens = new_model(save_checkpoint(tmp_path / "start", "bert"))
    save(tmp_path / "saved", model, tokens, TASKS)
    return model, tokens


def test_outputs_are_bit_equal_after_loading(made, tmp_path):
    model, tokens = made
    save(tmp_path / "saved", model, tokens, TASKS)
    again, same_tokens, tasks = load(tmp_path / "saved")
    assert tasks == TASKS
    assert again.head_of == model.head_of
    assert again.trunk.pooling == "mean"
    batch = TASK.encode(EXAMPLES, tokens).batch([0, 1])
    same = TASK.encode(EXAMPLES, same_tokens).batch([0, 1])
    assert all(torch.equal(batch[name], same[name]) for name in batch)
    for task in TASKS:
        with torch.no_grad():
            assert torch.equal(model(task, batch), again(task, same))
    assert again.head("en") is again.head("sw")


def test_a_model_of_0_1_is_loaded(bert, tmp_path):
    from safetensors.torch import load_file, save_file

    model, tokens = bert
    path = tmp_path / "saved" / "heads.safetensors"
    new = load_file(path)
    old = {
        key.removeprefix("head_").replace("%2E", "·"): value for key, value in new.items()
    }  # as 0.1 named them
    assert {key.split(".")[0] for key in old} == {"shared", "xnli·de"}
    assert not old.keys() & new.keys()
    save_file(old, path)
    again = load(tmp_path / "saved")[0]
    batch = TASK.encode(EXAMPLES, tokens).batch([0, 1])
    for task in ("en", "xnli.de"):
        torch.testing.assert_close(again(task, batch), model(task, batch), rtol=0, atol=0)


def test_trunk_is_read_by_hugging_face_alone(bert, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    model, tokens = bert
    trunk = AutoModel.from_pretrained(tmp_path / "saved").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    batch = TASK.encode(EXAMPLES, tokens).batch([0, 1])
    inputs = tokenizer([e.first for e in EXAMPLES], padding=True, return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(trunk(**inputs).last_hidden_state, model.trunk(batch).tokens)


def test_half_precision_stays_half(tmp_path):
    model, tokens = new_model(save_checkpoint(tmp_path / "start", "bert"))
    model.to(torch.bfloat16)
    save(tmp_path / "saved", model, tokens, TASKS)
    again = load(tmp_path / "saved")[0]
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert other.dtype == torch.bfloat16
        assert torch.equal(one, other)


def test_saving_again_replaces_the_folder(bert, tmp_path):
    model, tokens = bert
    (tmp_path / "saved" / "old.txt").write_text("of the model before")
    with torch.no_grad():
        next(model.heads.parameters()).zero_()
    save(tmp_path / "saved", model, tokens, TASKS)
    assert not next(load(tmp_path / "saved")[0].heads.parameters()).any()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved", "start"]
    assert not (tmp_path / "saved" / "old.txt").exists()


def test_a_failed_save_leaves_the_old_model(bert, tmp_path, monkeypatch):
    model, tokens = bert
    before = {p.name: p.read_bytes() for p in (tmp_path / "saved").iterdir()}

    def full(folder):
        raise OSError("no space left on device")

    monkeypatch.setattr(tokens, "save", full)
    with pytest.raises(OSError, match="no space"):
        save(tmp_path / "saved", model, tokens, TASKS)
    assert {p.name: p.read_bytes() for p in (tmp_path / "saved").iterdir()} == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved", "start"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a save is killed in a fork of this process")
def test_a_killed_save_leaves_the_old_model_and_nothing_after_the_next(bert, tmp_path, monkeypatch):
    model, tokens = bert
    before = {p.name: p.read_bytes() for p in (tmp_path / "saved").iterdir()}
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(tokens, "save", lambda folder: os._exit(9))
        save(tmp_path / "saved", model, tokens, TASKS)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert {p.name: p.read_bytes() for p in (tmp_path / "saved").iterdir()} == before
    save(tmp_path / "saved", model, tokens, TASKS)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved", "start"]


def test_a_folder_of_something_else_is_not_touched(bert, tmp_path):
    model, tokens = bert
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="is not a saved model: give another folder"):
        save(tmp_path / "mine", model, tokens, TASKS)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_task_without_a_head(bert, tmp_path):
    model, tokens = bert
    with pytest.raises(ValueError, match="Task 'fr' has no head: the model has en, sw"):
        save(tmp_path / "other", model, tokens, {"fr": TASK})


class TestBrokenFolders:
    @pytest.fixture(autouse=True)
    def _saved(self, bert, tmp_path):
        self.folder = tmp_path / "saved"

    def fails(self, pattern: str) -> None:
        with pytest.raises(ValueError, match=pattern) as raised:
            load(self.folder)
        assert "\n" not in str(raised.value)

    def test_no_description(self):
        (self.folder / "gradaccord.json").unlink()
        self.fails("gradaccord.json is not there")

    def test_description_cut_off(self):
        (self.folder / "gradaccord.json").write_text('{"format": 1,')
        self.fails("gradaccord.json cannot be read")

    def test_description_of_another_format(self):
        (self.folder / "gradaccord.json").write_text('{"format": 99}')
        self.fails("not of format 1")

    def test_description_lacks_a_field(self):
        (self.folder / "gradaccord.json").write_text('{"format": 1, "trunk": {}}')
        self.fails("gradaccord.json cannot be read .*'tasks'.*: save the model again")

    def test_no_heads(self):
        (self.folder / "heads.safetensors").unlink()
        self.fails("heads.safetensors cannot be read")

    def test_heads_cut_off(self):
        path = self.folder / "heads.safetensors"
        path.write_bytes(path.read_bytes()[:-10])
        self.fails("heads.safetensors cannot be read")

    def test_heads_of_other_tasks(self):
        path = self.folder / "gradaccord.json"
        described = json.loads(path.read_text())
        described["tasks"]["xnli.de"]["options"]["labels"].append("d")
        path.write_text(json.dumps(described))
        self.fails("do not belong together")

    def test_trunk_cut_off(self):
        path = self.folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-10])
        self.fails("model.safetensors cannot be read")
