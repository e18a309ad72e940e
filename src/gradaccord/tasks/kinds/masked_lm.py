"""Masked tokens of plain text: what a pretrained encoder learned first. Cross-entropy and accuracy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.data.encoded import IGNORED, Batch, Encoded, Ragged
from gradaccord.data.examples import Line
from gradaccord.data.text.masking import Mask
from gradaccord.data.text.masking import Tokens as MaskTokens
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.task import Output, StartingFile, Task
from gradaccord.tasks.tokenising import encodings


@dataclass(frozen=True)
class MaskedLM(Task[Line]):
    """Predict masked tokens; the masks are BERT's (`gradaccord.data.text.masking`).

    In training they are drawn for every batch from torch's global generator, so that a loss that is
    computed again under the same random state sees the same ones. In evaluation they are drawn once,
    from `seed`. The head is the checkpoint's own where it has one. To measure what was forgotten,
    without a trained head, use `gradaccord.probe.masked_lm.MaskedLM`.

    share: of tokens to be predicted.
    """

    share: float = 0.15
    seed: int = 0
    max_length: int = 128
    metric: Literal["accuracy", "loss", "perplexity"] = field(default="accuracy", repr=False)

    kind = "masked_lm"
    in_blocks = False  # the masks of a split come one after another from one generator
    lower_is_better = frozenset({"loss", "perplexity"})
    starting_file = StartingFile("txt", ("# a text a line",))

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"`share` is {self.share}: it must be in (0, 1].")

    def encode(self, examples: Sequence[Line], tokens: Tokens) -> Encoded:
        known = tokens.masking()
        texts = [example.text for example in examples]
        mask = Mask(known, self.share, torch.Generator().manual_seed(self.seed))
        whole, seen, labels, truncated = [], [], [], 0
        for encoding in encodings(tokens, texts, max_length=self.max_length):
            ids = torch.tensor(encoding.ids, dtype=torch.long, device="cpu")
            whole.append(encoding.ids)
            truncated += bool(encoding.overflowing)
            shown, chosen = mask(ids)
            seen.append(shown.tolist())
            labels.append(torch.where(chosen, ids, IGNORED).tolist())
        # What masking must know of the ids: the mask's, how many there are, the special ones.
        about = torch.tensor([known.mask, known.size, *known.special], device="cpu")
        return Encoded(
            ids=Ragged.of(whole),
            first=torch.arange(len(whole) + 1, device="cpu"),
            example=torch.arange(len(whole), device="cpu"),
            columns={"vocabulary": about.repeat(len(whole), 1)},
            tokens={"seen": Ragged.of(seen), "labels": Ragged.of(labels)},
            notes={"truncated": truncated},
            pad=tokens.pad,
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        return MaskingHead(trunk.masked_lm_head(), self.share)

    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        assert isinstance(output, dict)
        labels = output["labels"]
        if not len(labels):
            raise ValueError("No token of the batch can be masked: give longer texts.")
        return cross_entropy(output["logits"].float(), labels), len(labels)

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Any]:
        output: dict[str, torch.Tensor] = model(name, batch)
        logits, labels = output["logits"].float(), output["labels"]
        losses = cross_entropy(logits, labels, reduction="none").double().cpu()
        guesses, truth, rows = logits.argmax(-1).cpu(), labels.cpu(), output["row"].cpu()
        found = []
        for row in range(len(batch["input_ids"])):
            mine = rows == row
            found.append(
                {
                    "tokens": guesses[mine].tolist(),
                    "masked": truth[mine].tolist(),
                    "loss": float(losses[mine].sum()),
                }
            )
        return found

    def decode(self, examples: Sequence[Line], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return list(rows)

    def gold(self, example: Line) -> str:
        return example.text

    def score(self, examples: Sequence[Line], predictions: Sequence[Any]) -> dict[str, float]:
        """Accuracy in percent; the mean loss and its exponential, which are not percentages."""
        self.labelled(examples, predictions)
        count = sum(len(prediction["masked"]) for prediction in predictions)
        if not count:
            raise ValueError(
                f"None of the {len(examples)} texts has a masked token: give longer texts."
            )
        right = sum(
            guess == truth
            for prediction in predictions
            for guess, truth in zip(prediction["tokens"], prediction["masked"], strict=True)
        )
        loss = sum(prediction["loss"] for prediction in predictions) / count
        perplexity = math.exp(min(loss, 700.0))
        return {"accuracy": 100 * right / count, "loss": loss, "perplexity": perplexity}

    def chance(self, examples: Sequence[Line], predictions: Sequence[Any]) -> dict[str, float]:
        """A random one of the tokens that are masked anywhere in the split."""
        count = len({t for p in predictions for t in p["masked"]})
        return {"accuracy": 100 / count, "loss": math.log(count), "perplexity": float(count)}

    def constant(self, examples: Sequence[Line], predictions: Sequence[Any]) -> list[Any]:
        """The most common of these tokens; for the loss, each with its frequency as probability."""
        counts = Counter(t for p in predictions for t in p["masked"])
        common, total = counts.most_common(1)[0][0], counts.total()
        return [
            {
                **p,
                "tokens": [common] * len(p["masked"]),
                "loss": -sum(math.log(counts[t] / total) for t in p["masked"]),
            }
            for p in predictions
        ]

    def standard_error(self, score: float, count: int) -> float:
        """For accuracy as usual; for a loss it does not follow from the mean, and counts as 0."""
        return super().standard_error(score, count) if self.metric == "accuracy" else 0.0


class MaskingHead(nn.Module):
    """Masks the batch, runs the trunk on it, and predicts the masked tokens alone."""

    def __init__(self, predict: nn.Module, share: float) -> None:
        super().__init__()
        self.predict = predict
        self.share = share

    def forward(self, trunk: Trunk, batch: Batch) -> dict[str, torch.Tensor]:
        """logits [masked, tokens], labels [masked], and the row of each."""
        ids, present = batch["input_ids"], batch["attention_mask"].bool()
        if self.training:
            seen, chosen = self._masked(batch, ids, present)
        else:
            seen, chosen = torch.where(present, batch["seen"], ids), batch["labels"] != IGNORED
        states = trunk({**batch, "input_ids": seen}).tokens
        return {
            "logits": self.predict(states[chosen]),
            "labels": ids[chosen],
            "row": chosen.nonzero()[:, 0],
        }

    def _masked(
        self, batch: Batch, ids: torch.Tensor, present: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        mask, size, *special = batch["vocabulary"][0].tolist()
        seen, chosen = Mask(MaskTokens(mask, size, tuple(special)), self.share)(ids)
        chosen = chosen & present
        if not chosen.any():  # a few short texts: at least one token must be asked for
            able = present & ~torch.isin(ids, torch.tensor(special, device=ids.device))
            chosen = able & (able.flatten().cumsum(0) == 1).view_as(able)
            seen = torch.where(chosen, mask, ids)
        return torch.where(chosen, seen, ids), chosen
