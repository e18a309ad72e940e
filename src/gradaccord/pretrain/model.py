"""The model of pretraining: any masked-LM architecture of transformers, new or already trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from gradaccord.core.did_you_mean import nearest
from gradaccord.data.files.bad_files import reason
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.models.trunks.huggingface import position_limit, pretrained, quiet
from gradaccord.models.trunks.loading import minilm_folder
from gradaccord.pretrain.config import PretrainConfig

BLOCK = 64  # rows of logits at once
SHORT = 512  # tokens; longer sequences' attention matrices would take too much memory


def source_of(config: PretrainConfig) -> str | None:
    """The folder or name of the weights to continue from; None for fresh weights."""
    from transformers import AutoConfig  # noqa: F401  (fills the mapping)
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    name = config.model.name
    if name == "minilm":
        name = str(minilm_folder())
    if name in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not Path(name).is_dir():
        return None
    if "/" not in name and not Path(name).is_dir():
        known = [*MODEL_FOR_MASKED_LM_MAPPING_NAMES, "minilm"]
        raise ValueError(
            f"`model` is {name!r}, neither a folder nor an architecture with a masked-LM head: "
            f"{nearest(name, known)}"
        )
    if config.model.options:
        raise ValueError(
            f"`model.{next(iter(config.model.options))}` is for fresh weights, and {name} is already "
            "trained: leave it out."
        )
    if config.tokenizer is not None:
        raise ValueError(f"`tokenizer` is given, and {name} has its own tokenizer: leave it out.")
    return name


def make_model(
    config: PretrainConfig, source: str | None, tokens: HuggingFaceTokens
) -> tuple[Any, str]:
    """The model, fresh or from `source`, and a phrase for which; an error for too few positions."""
    if source is None:
        model, weights = _fresh(config, tokens), "fresh weights"
    else:
        model, missing = pretrained("AutoModelForMaskedLM", source)
        weights = "trained further" + (", with a new masked-LM head" if missing else "")
    limit = position_limit(model.base_model)
    if limit is not None:
        if config.length > limit:
            raise ValueError(
                f"`length` is {config.length}, and the model has {limit} positions: lower `length`."
            )
        tokens.tokenizer.model_max_length = min(tokens.tokenizer.model_max_length, limit)
    return model, weights


def _fresh(config: PretrainConfig, tokens: HuggingFaceTokens) -> Any:
    from transformers import AutoConfig, AutoModelForMaskedLM

    name, options = config.model.name, config.model.options
    plain: Any = AutoConfig.for_model(name)
    for option in options:
        if not hasattr(plain, option):
            known = [key for key in plain.to_dict() if not key.startswith("_")]
            raise ValueError(f"`model.{option}` is not an option of {name}: {nearest(option, known)}")
    special = tokens.tokenizer
    ids = {
        "vocab_size": tokens.size,
        "pad_token_id": special.pad_token_id,
        "bos_token_id": special.cls_token_id,
        "cls_token_id": special.cls_token_id,
        "eos_token_id": special.sep_token_id,
        "sep_token_id": special.sep_token_id,
    }
    # RoBERTa and models like it count positions from after the id of the padding token.
    positions = getattr(plain, "max_position_embeddings", None)
    if isinstance(positions, int) and positions < config.length + 2 + (tokens.pad or 0):
        ids["max_position_embeddings"] = config.length + 2 + tokens.pad
    new: Any = AutoModelForMaskedLM
    try:
        with quiet():
            made = AutoConfig.for_model(name, **{**ids, **options})
            return new.from_config(made)
    except Exception as error:  # sizes do not fit; each architecture raises its own error
        raise ValueError(f"`model` cannot be built ({reason(error)}): change its options.") from error


def use_fast_attention(model: Any, device: torch.device, precision: str, length: int) -> None:
    """Use eager attention (plain matrix products) for short sequences in bf16 on a CPU.

    There the fused attention's backward pass, which torch takes without dropout, costs four times as
    much: 17 % of a step of 4 layers.
    """
    if device.type == "cpu" and precision == "bf16" and length <= SHORT:
        model.set_attn_implementation("eager")


class MaskedLoss(nn.Module):
    """The loss of every chosen token; the head runs on these alone.

    A hook picks the chosen states from the encoder's output, so that the head of every architecture
    can be used as it is, without computing the other 85 % of the logits.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self._chosen: torch.Tensor | None = None
        model.base_model.register_forward_hook(self._take)

    def _take(self, module: nn.Module, given: Any, output: Any) -> Any:
        if self._chosen is not None:
            output.last_hidden_state = output.last_hidden_state[self._chosen].unsqueeze(0)
        return output

    def forward(
        self, ids: torch.Tensor, seen: torch.Tensor, chosen: torch.Tensor, pad: int
    ) -> torch.Tensor:
        """The loss of each chosen token in nats, [chosen]."""
        present = ids != pad
        inputs: dict[str, Any] = {"input_ids": seen}
        if not present.all():  # attention is faster without a mask
            inputs["attention_mask"] = present.long()
        self._chosen = chosen
        try:
            logits: torch.Tensor = self.model(**inputs, return_dict=True).logits
        finally:
            self._chosen = None
        losses: torch.Tensor = _TokenLosses.apply(logits.flatten(0, -2), ids[chosen])  # type: ignore[no-untyped-call]
        return losses


class _TokenLosses(torch.autograd.Function):
    """Cross-entropy of each row of logits, computed in float32 a few rows at a time.

    `cross_entropy(logits.float(), ...)` fills four matrices of the logits' size, which are the
    largest of a step, and took a quarter of the step's time. This fills one, the gradient.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        exact = torch.promote_types(logits.dtype, torch.float32)
        sums = torch.empty(len(logits), dtype=exact, device=logits.device)
        for rows in _blocks(len(logits)):
            torch.logsumexp(logits[rows].to(exact), 1, out=sums[rows])
        ctx.save_for_backward(logits, targets, sums)
        return sums - logits.gather(1, targets[:, None])[:, 0].to(exact)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, targets, sums = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        for rows in _blocks(len(logits)):
            share = logits[rows].to(sums.dtype).sub_(sums[rows, None]).exp_()
            share.scatter_add_(1, targets[rows, None], share.new_full((len(share), 1), -1.0))
            gradient[rows] = share.mul_(upstream[rows, None])
        return gradient, None


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, first + BLOCK) for first in range(0, count, BLOCK))
