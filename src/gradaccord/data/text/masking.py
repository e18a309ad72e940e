"""Which tokens a masked language model has to predict, and what it sees in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

MASKED, RANDOM = 0.8, 0.1  # of the chosen tokens; the rest stay as they are


@dataclass(frozen=True)
class Tokens:
    """What must be known of token ids where there is no Hugging Face tokenizer."""

    mask: int  # id of the mask token
    size: int  # ids are below this
    special: tuple[int, ...] = ()  # ids that are never masked, nor put in at random
    pad: int = 0

    @classmethod
    def of(cls, tokenizer: Any) -> Tokens:
        """Those of a Hugging Face tokenizer."""
        if getattr(tokenizer, "mask_token_id", None) is None:
            raise ValueError(
                f"`tokenizer` ({type(tokenizer).__name__}) has no mask token: it belongs to no "
                "masked-LM model."
            )
        pad = tokenizer.pad_token_id
        return cls(
            mask=tokenizer.mask_token_id,
            size=len(tokenizer),
            special=tuple(tokenizer.all_special_ids),
            pad=0 if pad is None else pad,
        )


class Mask:
    """From token ids to what the model sees, and to which of them are to be predicted.

    A share of the tokens that are not special is chosen; 80 % of them become the mask token, 10 % a
    random token, 10 % stay (Devlin et al. 2019). Where it is known which tokens begin a word, words are
    chosen whole; what becomes of each token is drawn separately, as in BERT.

    generator: draws from it; None: from torch's global one, as dropout does.
    """

    def __init__(self, tokens: Tokens, share: float, generator: torch.Generator | None = None) -> None:
        self.mask = tokens.mask
        self.share = share
        self.special = torch.tensor([*tokens.special, tokens.mask], device="cpu")
        every = torch.arange(tokens.size, device="cpu")
        self.ordinary = every[~torch.isin(every, self.special)]
        self.generator = generator

    def __call__(
        self, ids: torch.Tensor, begins: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What is seen, and what is chosen, both of the shape of `ids`.

        begins: whether each token begins a word, or stands for itself; None: all do.
        """
        device, generator = ids.device, self.generator
        special, ordinary = self.special.to(device), self.ordinary.to(device)
        choice, fate = torch.rand((2, *ids.shape), generator=generator, device=device)
        place = torch.randint(len(ordinary), tuple(ids.shape), generator=generator, device=device)
        if begins is not None:  # every token has the draw of the word's first
            place_of = torch.arange(ids.shape[-1], device=device).expand_as(ids)
            choice = choice.gather(-1, torch.where(begins, place_of, 0).cummax(-1).values)
        chosen = (choice < self.share) & ~torch.isin(ids, special)
        seen = torch.where(fate < MASKED + RANDOM, ordinary[place], ids)
        seen = torch.where(fate < MASKED, self.mask, seen)
        return torch.where(chosen, seen, ids), chosen
