"""`train.checkpointing` and `train.compile` in runs: what they change, what they do not, refusals."""

from __future__ import annotations

import logging

import pytest
import torch
from train_toy import said, same, weights
from transformers import AutoModel

from gradaccord.methods.registry import METHODS
from gradaccord.models.trunks import execution
from gradaccord.models.trunks.huggingface import HuggingFaceTrunk

OPTIONS = {
    "torchjd": {"weighting": "UPGrad"},
    "sequential_reptile": {"inner_steps": 2},
    "reptile": {"inner_steps": 2},
    "fomaml": {"inner_steps": 2},
    "multitask_reptile": {"inner_steps": 2},
}
ONE = {"steps": 3, "evaluate_every": 3, "save_every": 3}


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Whatever other tests of this process have compiled or switched off."""
    torch._dynamo.reset()
    torch.compiler.set_stance("default")


def close(one, other):
    """Recomputed in another order of sums, rounding may differ."""
    assert one.keys() == other.keys()
    return all(torch.allclose(one[n].double(), other[n].double(), atol=2e-5) for n in one)


@pytest.mark.parametrize("name", [*METHODS, "smart", "swep"])
def test_checkpointing_changes_no_weight(name, configured, run, tmp_path, monkeypatch):
    """With dropout, under every method: activations are recomputed under the masks they had."""
    chosen = {"regularize": [name]} if name not in METHODS else {
        "method": {"name": name, **OPTIONS.get(name, {})}
    }  # fmt: skip
    switched = []
    plain = HuggingFaceTrunk.checkpoint
    monkeypatch.setattr(
        HuggingFaceTrunk, "checkpoint", lambda trunk: (plain(trunk), switched.append(trunk))
    )
    for on in (False, True):
        assert not switched
        train = {**ONE, "checkpointing": on, "optimizer": "sgd", "lr": 0.02}
        run(configured(train=train, probe={"cosine": False}, **chosen), f"run{on}")
    assert switched[0].model.is_gradient_checkpointing
    assert close(weights(tmp_path / "runFalse"), weights(tmp_path / "runTrue"))


@pytest.fixture
def graphs(monkeypatch, caplog):
    """One entry for each call of a compiled trunk's graph."""
    calls = []

    def backend(module, inputs):
        def called(*given):
            calls.append(module)
            return module(*given)

        return called

    torch._dynamo.reset()
    caplog.set_level(logging.ERROR, "torch.__trace")  # pages of it, which pytest would keep
    monkeypatch.setattr(execution, "BACKEND", backend)
    yield calls
    torch._dynamo.reset()


@pytest.mark.parametrize("method", ["pcgrad", {"name": "dotprod", "mode": "difference"}])
def test_a_compiled_trunk_is_run_and_changes_no_weight(method, configured, run, tmp_path, graphs):
    for on in (False, True):
        assert not graphs
        run(configured(train={**ONE, "compile": on}, method=method), f"run{on}")
    assert len(graphs) > 6  # every batch of every step, and evaluations
    assert close(weights(tmp_path / "runFalse"), weights(tmp_path / "runTrue"))
    trunk = AutoModel.from_pretrained(tmp_path / "runTrue" / "model").state_dict()
    plain = AutoModel.from_pretrained(tmp_path / "runFalse" / "model").state_dict()
    assert trunk.keys() == plain.keys()


def test_a_compiled_run_resumes_bit_equal(configured, run, tmp_path, interrupted, graphs):
    config = configured(train={"steps": 4, "save_every": 2, "compile": True})
    run(config, "whole")
    interrupted(config, "broken", after=3)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))


@pytest.mark.parametrize("term", ["smart", "swep"])
def test_a_regulariser_inside_a_compiled_trunk_is_refused(term, written, capsys, tmp_path):
    """Its hooks would not be run, in silence."""
    file = written(regularize=[term], train={"compile": True})
    for command in ("validate", "train"):
        sentence = said(capsys, command, file)
        assert "`train.compile` is on, and `regularize`" in sentence
        assert "set train.compile to false" in sentence


def test_a_model_that_cannot_is_refused_at_validation(written, capsys, monkeypatch):
    from transformers import BertModel

    monkeypatch.setattr(BertModel, "supports_gradient_checkpointing", False)
    sentence = said(capsys, "validate", written(train={"checkpointing": True}))
    assert sentence == (
        "gradaccord: A BertModel cannot recompute its activations: set train.checkpointing to false.\n"
    )
    torch._dynamo.reset()

    def broken(module, inputs):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(execution, "BACKEND", broken)
    sentence = said(capsys, "validate", written(train={"compile": True}))
    assert "A HuggingFaceTrunk cannot be compiled here (" in sentence
    assert "no compiler" in sentence
    torch._dynamo.reset()


def test_a_perturbed_module_that_would_be_recomputed_without_is_refused(written, capsys):
    inside = {"name": "smart", "module": "trunk.model.encoder.layer.1"}
    sentence = said(capsys, "validate", written(regularize=[inside], train={"checkpointing": True}))
    assert "`train.checkpointing` is on, and `regularize` smart perturbs the module" in sentence
