"""Masked-language-model loss on given texts under masks that never change: what was forgotten?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.core.checks import whole_number
from gradaccord.data.text.masking import Mask, Tokens
from gradaccord.probe.eval_mode import evaluating

__all__ = ["MaskedLM", "Tokens", "with_encoder"]

Forward: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class MaskedLM:
    """Masked-LM loss of a model on fixed texts with fixed masks (Lee et al. 2022: forgetting).

        probe = MaskedLM(lines, tokenizer)
        before = probe.measure(masked_lm)
        after = probe.measure(with_encoder(masked_lm, fine_tuned.bert))

    A share of the tokens that are not special is chosen; 80 % of them become the mask token, 10 % a
    random token, 10 % stay; the loss is the mean over chosen tokens of -log p(true token). The masks
    are drawn once, from `seed` alone: they are the same for every model, device and process. The model
    is left as it was. Only losses under the same tokenizer can be compared.

    texts: strings, or sequences of token ids. Strings are cut at `max_length` tokens.
    tokenizer: a Hugging Face tokenizer, or `Tokens` for ids.
    share: of tokens to predict.
    """

    def __init__(
        self,
        texts: Iterable[str] | Iterable[Sequence[int]],
        tokenizer: Any,
        *,
        max_length: int = 128,
        batch_size: int = 32,
        share: float = 0.15,
        seed: int = 0,
    ) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"`share` is {share}: it must be in (0, 1].")
        for name, value in (("max_length", max_length), ("batch_size", batch_size)):
            whole_number(name, value)
        tokens = tokenizer if isinstance(tokenizer, Tokens) else Tokens.of(tokenizer)
        rows = [
            torch.tensor(ids, dtype=torch.long, device="cpu")
            for ids in _ids(list(texts), tokenizer, max_length)
        ]
        mask = Mask(tokens, share, torch.Generator().manual_seed(seed))
        masked = [mask(ids) for ids in rows]
        self.batches = [
            _Batch.of(rows[i : i + batch_size], masked[i : i + batch_size], tokens.pad)
            for i in range(0, len(rows), batch_size)
        ]
        self.count = sum(len(batch.labels) for batch in self.batches)  # tokens to be predicted
        if not self.count:
            raise ValueError(
                f"None of the {sum(map(len, rows))} tokens was chosen to be masked: give more text."
            )

    def measure(self, model: nn.Module, forward: Forward | None = None) -> float:
        """The mean loss over the chosen tokens, in evaluation mode.

        forward: from token ids and attention mask, both [texts, length], to logits [texts, length,
            tokens]; by default the model is called like a Hugging Face masked-LM model.
        """
        call = _hugging_face(model) if forward is None else forward
        device = next(model.parameters()).device
        total = 0.0
        with evaluating(model), torch.no_grad():
            for batch in self.batches:
                logits = call(batch.ids.to(device), batch.attention.to(device))
                chosen = logits[batch.chosen.to(device)]
                labels = batch.labels.to(device)
                total += float(cross_entropy(chosen.float(), labels, reduction="sum").double())
        return total / self.count


def with_encoder(masked_lm: nn.Module, encoder: nn.Module) -> nn.Module:
    """A copy of a pretrained Hugging Face masked-LM model with the weights of a fine-tuned encoder.

    The head stays the pretrained one, with its decoder matrix, which is untied from the word
    embeddings. If it stayed tied to embeddings that fine-tuning has moved, the loss would measure the
    head's mismatch as well as the encoder's forgetting.
    """
    grafted: Any = copy.deepcopy(masked_lm)
    decoder = grafted.get_output_embeddings()
    if decoder is not None:
        decoder.weight = nn.Parameter(decoder.weight.detach().clone())
    missing = grafted.base_model.load_state_dict(encoder.state_dict(), strict=False).missing_keys
    if missing:
        raise ValueError(
            f"`encoder` lacks {len(missing)} weights of the masked-LM model's own, such as "
            f"{missing[0]!r}: give the same encoder without its head, e.g. model.base_model."
        )
    whole: nn.Module = grafted.eval()
    return whole


@dataclass(frozen=True)
class _Batch:
    ids: torch.Tensor  # [texts, length] as the model sees them
    attention: torch.Tensor  # [texts, length] 1 for tokens, 0 for padding
    chosen: torch.Tensor  # [texts, length] whether a token is to be predicted
    labels: torch.Tensor  # [chosen] the true ids, in the order of `chosen`

    @classmethod
    def of(
        cls, rows: Sequence[torch.Tensor], masked: Sequence[tuple[torch.Tensor, torch.Tensor]], pad: int
    ) -> _Batch:
        def padded(parts: Sequence[torch.Tensor], filler: int) -> torch.Tensor:
            return nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=filler)

        chosen = padded([chosen for _, chosen in masked], 0)
        return cls(
            ids=padded([ids for ids, _ in masked], pad),
            attention=padded([torch.ones_like(ids) for ids in rows], 0),
            chosen=chosen,
            labels=padded(rows, pad)[chosen],
        )


def _ids(texts: Sequence[Any], tokenizer: Any, max_length: int) -> Sequence[Sequence[int]]:
    if not texts:
        raise ValueError("`texts` is empty: give at least one.")
    if not isinstance(texts[0], str):
        return [list(ids)[:max_length] for ids in texts]
    if isinstance(tokenizer, Tokens):
        raise TypeError(
            "`texts` are strings and `tokenizer` is Tokens: give a tokenizer, or token ids."
        )
    found: Sequence[Sequence[int]] = tokenizer(
        texts, truncation=True, max_length=max_length, padding=False
    )["input_ids"]
    return found


def _hugging_face(model: nn.Module) -> Forward:
    def forward(ids: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        output = model(input_ids=ids, attention_mask=attention)
        logits: torch.Tensor | None = getattr(output, "logits", None)
        if logits is None:
            raise TypeError(
                f"{type(model).__name__} gave no logits: use a masked-LM model, or pass `forward`."
            )
        return logits

    return forward
