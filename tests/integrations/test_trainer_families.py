"""The mixin under TRL's SFTTrainer and sentence-transformers' trainer, on local models alone."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from trainer_toy import CHAT, CODE, assert_same, moved, weights

import gradaccord
from gradaccord.integrations import AlignedMixin

pytestmark = pytest.mark.usefixtures("one_thread")

datasets = pytest.importorskip("datasets")

COMMON = {
    "use_cpu": True,
    "report_to": [],
    "disable_tqdm": True,
    "save_strategy": "no",
    "logging_strategy": "steps",
    "logging_steps": 2,
    "dataloader_pin_memory": False,
    "max_steps": 4,
}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("CI", "1")  # TRL sends no telemetry then


def sft(folder, gpt, method, tasks=None, **options):
    trl = pytest.importorskip("trl")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    class AlignedSFTTrainer(AlignedMixin, trl.SFTTrainer):
        pass

    texts = tasks or {"code": CODE, "chat": CHAT}
    return AlignedSFTTrainer(
        AutoModelForCausalLM.from_pretrained(gpt),
        trl.SFTConfig(str(folder), **COMMON | {"max_length": 32, "bf16": False} | options),
        method=method,
        train_dataset={t: datasets.Dataset.from_dict({"text": rows}) for t, rows in texts.items()},
        processing_class=AutoTokenizer.from_pretrained(gpt),
    )


METHODS = {
    "GradVac": "GradVac",
    "DotProd": partial(gradaccord.DotProd, mode="difference"),
    "Sequential Reptile": partial(gradaccord.SequentialReptile, inner_steps=5, outer_lr=0.5),
}


@pytest.mark.parametrize("method", METHODS)
def test_sft_trainer_learns_all_its_tasks(tmp_path, gpt, method):
    made = sft(
        tmp_path, gpt, METHODS[method], per_device_train_batch_size=4, max_steps=60, learning_rate=2e-2,
        logging_steps=1,
    )  # fmt: skip
    made.train()
    logs = [entry for entry in made.state.log_history if "loss" in entry]
    assert "mean_token_accuracy" in logs[-1]  # SFTTrainer's own figures go on
    for task in ("code", "chat"):
        losses = [v for entry in logs for k, v in entry.items() if k.startswith(f"loss/{task}")]
        assert losses[-1] < 0.7 * losses[0]


def test_the_fused_head_of_sft_makes_an_exact_dotprod_fall_back(tmp_path, gpt):
    """As docs/integrations.md says; should a newer TRL's head allow it, the sentence there can go."""
    made = sft(tmp_path, gpt, "DotProd", per_device_train_batch_size=2, max_steps=2)
    with pytest.warns(UserWarning, match="cannot be differentiated twice"):
        made.train()
    assert made.method.mode == "difference"


def test_sft_accumulation_equals_the_joined_batch(tmp_path, gpt):
    """The texts differ in length, so that every micro-batch has another number of tokens."""
    texts = {"code": [" ".join(CODE[: 1 + i % 3]) for i in range(12)], "chat": CHAT}
    runs = []
    for size, steps in ((4, 1), (1, 4)):
        made = sft(
            tmp_path, gpt, "PCGrad", texts, per_device_train_batch_size=size,
            gradient_accumulation_steps=steps, learning_rate=1e-3,
        )  # fmt: skip
        made.train()
        runs.append(weights(made.model))
    assert_same(runs[1], runs[0], 5e-6)


def sentence_trainer(folder, minilm, **options):
    st = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import losses as kinds

    class AlignedSentenceTrainer(AlignedMixin, st.SentenceTransformerTrainer):
        pass

    torch.manual_seed(0)
    model = st.SentenceTransformer(str(minilm), device="cpu")
    losses = {
        "similarity": kinds.CosineSimilarityLoss(model),
        "pairs": kinds.MultipleNegativesRankingLoss(model),
    }
    similarity = datasets.Dataset.from_dict(
        {
            "sentence1": [f"a man plays song {i}" for i in range(8)],
            "sentence2": [f"someone plays tune {i + i % 2}" for i in range(8)],
            "score": [1.0, 0.2] * 4,
        }
    )
    questions = [f"where is town {i}?" for i in range(6)] * 2
    pairs = datasets.Dataset.from_dict(
        {"anchor": questions, "positive": [f"town {i % 6} lies by river {i}" for i in range(12)]}
    )
    settings = COMMON | {"per_device_train_batch_size": 4, "max_steps": 2} | options
    return AlignedSentenceTrainer(
        model,
        st.SentenceTransformerTrainingArguments(str(folder), **settings),
        method="PCGrad",
        train_dataset={"similarity": similarity, "pairs": pairs},
        loss=losses,
    )


def test_sentence_transformer_trainer_takes_a_loss_for_each_task(tmp_path, minilm):
    made = sentence_trainer(tmp_path, minilm, learning_rate=1e-4, max_steps=6)
    before = weights(made.model)
    made.train()
    assert made.report.tasks == ("similarity", "pairs")
    assert moved(weights(made.model), before)
    logs = [entry for entry in made.state.log_history if "loss" in entry]
    assert logs[-1]["loss"] < logs[0]["loss"]
    assert "cosine/similarity~pairs" in logs[0]


def test_sentence_transformers_own_batch_sampler_is_honoured(tmp_path, minilm):
    from sentence_transformers.base.sampler import BatchSamplers

    made = sentence_trainer(tmp_path, minilm, batch_sampler=BatchSamplers.NO_DUPLICATES)
    sampler = made.get_train_dataloader().batch_sampler
    for micro in sampler:
        (pairs,) = (draw for draw in micro if draw.task == "pairs")
        assert len({index % 6 for index in pairs.examples}) == len(pairs.examples)


def test_trl_s_activation_offloading_is_refused(tmp_path, gpt):
    made = sft(tmp_path, gpt, "PCGrad", max_steps=1)
    made.args.activation_offloading = True
    with pytest.raises(ValueError, match="`activation_offloading` is on"):
        made.train()
