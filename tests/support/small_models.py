"""Small random checkpoints with real tokenizers, in the folders that Hugging Face would write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Shares of the company fell after it said that profits were lower than expected.",
    "Der Hund läuft über die Straße und bellt.",
    "How many people live in the capital of the country?",
    "A good film with a bad ending, but I liked it anyway.",
    "The bank raised its rates on Tuesday; the dollar rose in New York.",
)

ARCHITECTURES = ("bert", "roberta", "electra", "pegasus", "bart", "t5")
ENCODERS = ("bert", "roberta", "electra")
ENCODER_DECODERS = ("pegasus", "bart", "t5")


def save_checkpoint(
    folder: Path,
    architecture: str,
    *,
    texts: Sequence[str] = TEXTS,
    vocabulary: int = 400,
    width: int = 32,
    depth: int = 2,
    positions: int = 128,
    head: bool = False,
    seed: int = 0,
) -> Path:
    """Write a random model and a tokenizer trained on `texts`; with `head`, its LM head too."""
    from gradaccord.models.trunks.huggingface import quiet

    torch.manual_seed(seed)
    tokenizer = train_tokenizer(architecture, texts, vocabulary, positions)
    with quiet():
        model = new_model(architecture, tokenizer, width, depth, positions, head)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def train_tokenizer(architecture: str, texts: Sequence[str], vocabulary: int, positions: int) -> Any:
    from transformers import PreTrainedTokenizerFast

    if architecture in ("bert", "electra"):
        return PreTrainedTokenizerFast(
            tokenizer_object=_word_piece(texts, vocabulary), pad_token="[PAD]", unk_token="[UNK]",
            cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", model_max_length=positions,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        )  # fmt: skip
    if architecture in ("roberta", "bart"):
        return PreTrainedTokenizerFast(
            tokenizer_object=_byte_level(texts, vocabulary), pad_token="<pad>", unk_token="<unk>",
            bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", mask_token="<mask>",
            model_max_length=positions, model_input_names=["input_ids", "attention_mask"],
        )  # fmt: skip
    return PreTrainedTokenizerFast(
        tokenizer_object=_unigram(texts, vocabulary), pad_token="<pad>", eos_token="</s>",
        unk_token="<unk>", model_max_length=positions,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def new_model(
    architecture: str, tokenizer: Any, width: int, depth: int, positions: int, head: bool
) -> Any:
    import transformers as hf

    if architecture in ENCODERS:
        config_class = {"bert": hf.BertConfig, "roberta": hf.RobertaConfig, "electra": hf.ElectraConfig}
        names = {
            "bert": ("BertModel", "BertForMaskedLM"),
            "roberta": ("RobertaModel", "RobertaForMaskedLM"),
            "electra": ("ElectraModel", "ElectraForMaskedLM"),
        }
        options = {"embedding_size": width} if architecture == "electra" else {}
        config = config_class[architecture](
            vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=depth,
            num_attention_heads=4, intermediate_size=2 * width, pad_token_id=tokenizer.pad_token_id,
            max_position_embeddings=positions + (2 if architecture == "roberta" else 0),
            type_vocab_size=1 if architecture == "roberta" else 2, **options,
        )  # fmt: skip
        return getattr(hf, names[architecture][head])(config)
    if architecture == "t5":
        config = hf.T5Config(
            vocab_size=len(tokenizer), d_model=width, d_kv=width // 4, d_ff=2 * width, num_layers=depth,
            num_heads=4, decoder_start_token_id=tokenizer.pad_token_id,
            pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        return (hf.T5ForConditionalGeneration if head else hf.T5Model)(config)
    start = tokenizer.pad_token_id if architecture == "pegasus" else tokenizer.eos_token_id
    options = {
        "vocab_size": len(tokenizer), "d_model": width, "max_position_embeddings": positions,
        "encoder_layers": depth, "encoder_attention_heads": 4, "encoder_ffn_dim": 2 * width,
        "decoder_layers": depth, "decoder_attention_heads": 4, "decoder_ffn_dim": 2 * width,
        "pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id,
        "forced_eos_token_id": tokenizer.eos_token_id, "decoder_start_token_id": start,
    }  # fmt: skip
    if architecture == "pegasus":
        config = hf.PegasusConfig(scale_embedding=True, **options)
        return (hf.PegasusForConditionalGeneration if head else hf.PegasusModel)(config)
    config = hf.BartConfig(bos_token_id=tokenizer.bos_token_id, **options)
    return (hf.BartForConditionalGeneration if head else hf.BartModel)(config)


def _word_piece(texts: Sequence[str], size: int) -> Any:
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    return tokenizer


def _byte_level(texts: Sequence[str], size: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def _unigram(texts: Sequence[str], size: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


def batch_of(tokens, texts=TEXTS, seconds=None):
    """Texts, or pairs of them, as encoded rows."""
    from gradaccord.data.encoded import Encoded

    encodings = tokens.encode(list(texts), seconds, max_length=tokens.max_length)
    types = [e.type_ids for e in encodings] if tokens.has_types else None
    encoded = Encoded.single([e.ids for e in encodings], types, pad=tokens.pad)
    return encoded
