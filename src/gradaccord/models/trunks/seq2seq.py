"""A Hugging Face encoder-decoder as the trunk: heads read its encoder, summaries use both halves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradaccord.data.encoded import IGNORED, Batch
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.models.trunks.execution import checkpoint_model
from gradaccord.models.trunks.huggingface import (
    check_complete,
    checked_pooling,
    dropout_of,
    freeze_unlearned,
    position_limit,
    pretrained,
    quiet,
)
from gradaccord.models.trunks.trunk import Pooling, States, Trunk


class Seq2SeqTrunk(Trunk):
    """A model that `AutoModelForSeq2SeqLM` makes (Pegasus, BART, T5), with the tokenizer it writes by.

    Called as a trunk, it gives the encoder's states, so that any other task can share the encoder with
    the one that generates text.
    """

    takes_types = False

    def __init__(self, model: Any, tokens: HuggingFaceTokens, pooling: Pooling | None = None) -> None:
        super().__init__()
        self.model: Any = model
        self.pooling = checked_pooling(pooling, "mean")
        self.hidden = int(model.config.hidden_size)
        self.dropout = dropout_of(model.config)
        self.max_length = position_limit(model)
        self.tokens = tokens.limited(self.max_length, types=False)
        freeze_unlearned(model)

    def forward(self, batch: Batch) -> States:
        """The encoder's states."""
        mask = batch["attention_mask"]
        encoder = self.model.get_encoder()
        output = encoder(input_ids=batch["input_ids"], attention_mask=mask, return_dict=True)
        return States(output.last_hidden_state, mask, self.pooling)

    def decoded(self, states: States, labels: torch.Tensor) -> torch.Tensor:
        """Logits [sequences, length, tokens] of every label, given those before it."""
        from transformers.modeling_outputs import BaseModelOutput

        before = self.model.prepare_decoder_input_ids_from_labels(labels=labels)
        logits: torch.Tensor = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=states.tokens),  # type: ignore[arg-type]
            attention_mask=states.mask,
            decoder_input_ids=before,
            return_dict=True,
            use_cache=False,
        ).logits
        return logits

    def generate(self, batch: Batch, **options: Any) -> list[str]:
        """A text for each sequence; options are those of transformers' `generate`."""
        with quiet():
            written = self.model.generate(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], **options
            )
        return [self.tokens.decode(ids).strip() for ids in written.tolist()]

    def checkpoint(self) -> None:
        """Use the model's own checkpointing."""
        checkpoint_model(self.model)

    def options(self) -> dict[str, Any]:
        """Pooling, attention, and that the decoder belongs to it."""
        attention = self.model.config._attn_implementation
        return {"pooling": self.pooling, "attention": attention, "decoder": True}

    def save(self, folder: Path) -> None:
        """Write config.json, generation_config.json and model.safetensors."""
        with quiet():
            self.model.save_pretrained(folder)


def new_bart(tokens: HuggingFaceTokens, layers: int = 2, width: int = 256) -> Seq2SeqTrunk:
    """BART (Lewis et al. 2020) with fresh weights and this many layers in each half.

    tokens: of a BERT, whose first and last special token begin and end a summary.
    """
    import transformers

    if width % 64:
        raise ValueError(f"`width` is {width}: it must be a multiple of 64, as a head is 64 wide.")
    own = tokens.tokenizer
    config = transformers.BartConfig(
        vocab_size=tokens.size, d_model=width, max_position_embeddings=512,
        encoder_layers=layers, encoder_attention_heads=width // 64, encoder_ffn_dim=4 * width,
        decoder_layers=layers, decoder_attention_heads=width // 64, decoder_ffn_dim=4 * width,
        pad_token_id=own.pad_token_id, bos_token_id=own.cls_token_id, eos_token_id=own.sep_token_id,
        decoder_start_token_id=own.sep_token_id, forced_eos_token_id=own.sep_token_id,
    )  # fmt: skip
    new: Any = transformers.BartForConditionalGeneration
    return Seq2SeqTrunk(new(config), tokens)


class SummaryHead(nn.Module):
    """Rows of two sequences, a document and its summary, to the logits of the summary's tokens.

    It has no weights: the decoder and its output layer are the trunk's own.
    """

    def forward(self, trunk: Seq2SeqTrunk, batch: Batch) -> torch.Tensor:
        """[rows, summary length, tokens]."""
        return trunk.decoded(trunk(documents(batch)), summary_labels(batch))


def documents(batch: Batch) -> Batch:
    """The first sequence of every row, padded no further than the longest of them."""
    mask = batch["attention_mask"][0::2]
    length = int(mask.sum(1).max())
    return {"input_ids": batch["input_ids"][0::2, :length], "attention_mask": mask[:, :length]}


def summary_labels(batch: Batch) -> torch.Tensor:
    """The second sequence of every row, with `IGNORED` in the place of padding."""
    mask = batch["attention_mask"][1::2]
    length = max(int(mask.sum(1).max()), 1)
    return batch["input_ids"][1::2, :length].masked_fill(mask[:, :length] == 0, IGNORED)


def load_seq2seq(
    source: str | Path, pooling: Pooling | None = None, attention: str | None = None
) -> Seq2SeqTrunk:
    """The encoder-decoder of a folder or of a hub's model."""
    model, missing = pretrained("AutoModelForSeq2SeqLM", source, attention=attention)
    remedy = "give a checkpoint that has the decoder, or load it without `decoder`"
    # A base model lacks the bias, where it is zero.
    check_complete(source, model, missing - {"final_logits_bias"}, remedy)
    return Seq2SeqTrunk(model, HuggingFaceTokens.load(source), pooling)
