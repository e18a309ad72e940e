"""The layers of a masked-LM model after its encoder, as a module of their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gradaccord.models.trunks.huggingface import HuggingFaceTrunk, pretrained, quiet


class MaskedLMHead(nn.Module):
    """From states [N, hidden] to logits [N, tokens], by a Hugging Face masked-LM model.

    The model's encoder is taken out and what is left is run on the given states, so that any
    architecture's head works. Its decoder matrix is a copy of its own: not tied to word embeddings
    that other tasks move too.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        decoder = model.get_output_embeddings()
        decoder.weight = nn.Parameter(decoder.weight.detach().clone())
        setattr(model, model.base_model_prefix, _Given())
        self.model: Any = model

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The logits of each state."""
        given = getattr(self.model, self.model.base_model_prefix)
        given.states = states.unsqueeze(0)
        try:
            logits: torch.Tensor = self.model(return_dict=True).logits
        finally:
            given.states = None
        return logits.squeeze(0)


class _Given(nn.Module):
    """Stands where the encoder was, and answers with the states it was given."""

    states: torch.Tensor | None = None

    def forward(self, *_: Any, **__: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=self.states)  # type: ignore[arg-type]


def masked_lm_head(trunk: HuggingFaceTrunk) -> MaskedLMHead:
    """The head that the trunk's checkpoint brings; what it lacks of one is made afresh.

    The decoder matrix of a fresh one starts as a copy of the word embeddings.
    """
    import transformers

    if trunk.has_decoder:
        raise ValueError(
            f"A {type(trunk.model).__name__} is no masked-LM encoder: choose one such as BERT."
        )
    if trunk.source is not None:
        return MaskedLMHead(pretrained("AutoModelForMaskedLM", trunk.source)[0])
    new: Any = transformers.AutoModelForMaskedLM
    with quiet():
        model = new.from_config(trunk.config)
    words = trunk.model.get_input_embeddings().weight
    decoder = model.get_output_embeddings()
    if decoder.weight.shape == words.shape:
        with torch.no_grad():
            decoder.weight.copy_(words)
    return MaskedLMHead(model)
