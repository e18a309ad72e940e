"""The code of docs/integrations.md runs as it stands, and gives what a raw loop gives."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader
from toy import Trunk, batch, loss_of
from trainer_toy import CHAT, CODE, arguments, assert_same, bert, moved, sentences, weights

import gradaccord

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_every_section_has_its_code():
    assert list(SECTIONS) == [
        *("Hugging Face Trainer", "TRL", "sentence-transformers", "Regularisers"),
        *("Accelerate", "Fabric", "Lightning"),
    ]


@pytest.mark.parametrize("section", ["Hugging Face Trainer", "Regularisers"])
def test_trainer_examples(section, tmp_path):
    model = bert()
    before = weights(model)
    names = {
        "model": model,
        "sst": sentences(32, 1),
        "sts": sentences(32, 2),
        "sst_dev": sentences(8, 3),
        "sts_dev": sentences(8, 4),
        "args": arguments(tmp_path),
    }
    exec(_on_cpu(SECTIONS[section]), names)
    assert moved(weights(model), before)
    assert names["trainer"].report.tasks == ("sst", "sts")


def test_trl_example(gpt):
    pytest.importorskip("trl")
    import datasets
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(gpt)
    before = weights(model)
    make = datasets.Dataset.from_dict
    names = {
        "model": model,
        "tokenizer": AutoTokenizer.from_pretrained(gpt),
        "code": make({"text": CODE}),
        "chat": make({"text": CHAT}),
    }
    exec(_on_cpu(SECTIONS["TRL"]), names)
    assert moved(weights(model), before)


def test_sentence_transformers_example(minilm):
    st = pytest.importorskip("sentence_transformers")
    import datasets

    model = st.SentenceTransformer(str(minilm), device="cpu")
    before = weights(model)
    make = datasets.Dataset.from_dict
    names = {
        "model": model,
        "similarity": make({"one": ["a", "b"] * 4, "two": ["a", "c"] * 4, "score": [1.0, 0.2] * 4}),
        "pairs": make({"q": [f"what is {i}" for i in range(8)], "a": [f"it is {i}" for i in range(8)]}),
    }
    exec(_on_cpu(SECTIONS["sentence-transformers"]), names)
    assert moved(weights(model), before)


def _on_cpu(code: str) -> str:
    """The examples leave the device and the reporting to their defaults; a test must not."""
    return re.sub(
        r'(Config|Arguments)\("out", ', r'\1("out", use_cpu=True, bf16=False, report_to=[], ', code
    )


STEPS = [{task: batch(3 * i + j) for j, task in enumerate("abc")} for i in range(20)]
make_optimizer = partial(torch.optim.AdamW, lr=0.01)


def small() -> Trunk:
    torch.manual_seed(0)
    return Trunk(dropout=0.1)


def loss_fn(model, task, given):
    return loss_of(model, task, *given)


def expected():
    model = small()
    optimizer = make_optimizer(model.parameters())
    method = gradaccord.PCGrad(model)
    torch.manual_seed(1)
    for batches in STEPS:
        method.backward({t: partial(loss_fn, model, t, b) for t, b in batches.items()})
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)


@pytest.mark.parametrize("section", ["Accelerate", "Fabric"])
def test_loop_examples_give_the_same_weights_after_20_steps(section):
    if section == "Fabric":
        pytest.importorskip("lightning.fabric")
    model = small()
    names = {"model": model, "optimizer": make_optimizer(model.parameters()), "loss_fn": loss_fn}
    names |= {"loader": STEPS}
    torch.manual_seed(1)
    exec(SECTIONS[section], names)
    assert_same(weights(model), expected())


def lightning_names(model):
    loaders = {task: DataLoader([step[task] for step in STEPS], batch_size=None) for task in "abc"}

    def seeded(model, task, given):
        seeds.append(0)
        if len(seeds) == 1:  # Lightning draws before the first step
            torch.manual_seed(1)
        return loss_fn(model, task, given)

    seeds = []
    return {"model": model, "make_optimizer": make_optimizer, "loss_fn": seeded, "loaders": loaders}


@pytest.mark.filterwarnings("ignore:::lightning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_lightning_example_gives_the_same_weights_and_resumes(tmp_path):
    pytest.importorskip("lightning")
    model = small()
    names = lightning_names(model)
    exec(SECTIONS["Lightning"], names)
    assert_same(weights(model), expected())
    path = tmp_path / "last.ckpt"
    names["trainer"].save_checkpoint(path)
    other = small()
    code = SECTIONS["Lightning"].replace("max_epochs=1", "max_epochs=2")
    code = code.replace('"min_size"))', f'"min_size"), ckpt_path={str(path)!r})')
    again = lightning_names(other)
    exec(code, again)
    assert moved(weights(other), weights(model))
    state = names["aligned"].method.state_dict()["generator"]
    assert torch.equal(again["aligned"].loaded["generator"], state)
