"""Summaries written by an encoder-decoder: cross-entropy per token, beam search, ROUGE-1, -2 and -L."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.data.encoded import IGNORED, Batch, Encoded, Ragged
from gradaccord.data.examples import Document
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.seq2seq import Seq2SeqTrunk, SummaryHead, documents, summary_labels
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks.task import Output, StartingFile, Task
from gradaccord.tasks.tokenising import encodings

ROUGE = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class Summarization(Task[Document]):
    """Text to text. Trained on the first summary of each document, scored against all of them.

    prefix: put before every document (T5 wants "summarize: ").
    max_length, max_summary: in tokens; what is longer is cut, and counted.
    beams, length_penalty, no_repeat: of the beam search; no sequence of `no_repeat` tokens may occur
        twice (0: no limit).
    label_smoothing: the share of the target that is spread over all tokens, in the loss.
    stemming: compare Porter stems instead of words, as published ROUGE scores do.
    references: of several summaries, the score of the "best" (per metric) or the "mean" of all.
    words: "english" compares what is left of [a-z0-9] (rouge-score's own); "spaced" compares whatever
        stands between spaces, for other scripts, without stemming.
    """

    prefix: str = ""
    max_length: int = 128
    max_summary: int = 32
    beams: int = 4
    length_penalty: float = 1.0
    no_repeat: int = 0
    label_smoothing: float = 0.0
    stemming: bool = True
    references: Literal["best", "mean"] = "best"
    words: Literal["english", "spaced"] = "english"
    metric: Literal["rouge1", "rouge2", "rougeL"] = field(default="rougeL", repr=False)

    kind = "summarization"
    graded = True
    generates = True
    starting_file = StartingFile(
        "csv",
        ("columns: {text: document, summaries: summary}",),
        "PATH                    # the folder of an encoder-decoder, such as T5 or BART",
    )

    def encode(self, examples: Sequence[Document], tokens: Tokens) -> Encoded:
        texts = [self.prefix + example.text for example in examples]
        summaries = [example.summaries[0] if example.summaries else "" for example in examples]
        sources = encodings(tokens, texts, max_length=self.max_length)
        targets = encodings(tokens, summaries, max_length=self.max_summary)
        sequences: list[list[int]] = []
        texts_cut = summaries_cut = 0
        for example, source, target in zip(examples, sources, targets, strict=True):
            sequences += [source.ids, target.ids if example.summaries else []]
            texts_cut += bool(source.overflowing)
            summaries_cut += bool(target.overflowing)
        return Encoded(
            ids=Ragged.of(sequences),
            first=torch.arange(0, len(sequences) + 1, 2, device="cpu"),
            example=torch.arange(len(examples), device="cpu"),
            notes={"truncated": texts_cut, "summaries truncated": summaries_cut},
            pad=tokens.pad,
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        if not isinstance(trunk, Seq2SeqTrunk):
            raise ValueError(
                f"A summarization task needs a decoder and the trunk is a {type(trunk).__name__}: load "
                "an encoder-decoder (Pegasus, BART, T5) with decoder=True."
            )
        return SummaryHead()

    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        assert isinstance(output, torch.Tensor)
        labels = summary_labels(batch)
        count = int((labels != IGNORED).sum())
        if not count:
            raise ValueError("No document of the batch has a summary: train on a split that has them.")
        loss = cross_entropy(
            output.flatten(0, 1).float(),
            labels.flatten(),
            ignore_index=IGNORED,
            label_smoothing=self.label_smoothing,
        )
        return loss, count

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Any]:
        trunk: Any = model.trunk
        return list(
            trunk.generate(
                documents(batch),
                num_beams=self.beams,
                do_sample=False,
                max_new_tokens=self.max_summary,
                min_length=0,
                length_penalty=self.length_penalty,
                no_repeat_ngram_size=self.no_repeat,
                # Stopped as soon as there are enough finished texts, beams end with poor short ones.
                early_stopping=False,
            )
        )

    def decode(self, examples: Sequence[Document], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return list(rows)

    def gold(self, example: Document) -> str | None:
        return example.summaries[0] if example.summaries else None

    def score(self, examples: Sequence[Document], predictions: Sequence[Any]) -> dict[str, float]:
        self.labelled(examples, predictions)
        scorer = self._scorer()
        totals, count = dict.fromkeys(ROUGE, 0.0), 0
        for example, prediction in zip(examples, predictions, strict=True):
            if not example.summaries:
                continue
            count += 1
            if not isinstance(prediction, str):
                raise ValueError(f"A prediction is {prediction!r}: it must be a text.")
            found = [scorer.score(summary, prediction) for summary in example.summaries]
            for name in ROUGE:
                values = [scores[name].fmeasure for scores in found]
                totals[name] += max(values) if self.references == "best" else sum(values) / len(values)
        return {name: 100 * total / count for name, total in totals.items()}

    def constant(self, examples: Sequence[Document], predictions: Sequence[Any]) -> list[Any]:
        """The beginning of each document, with as many words as summaries have on average."""
        gold, _ = self.labelled(examples, predictions)
        length = round(sum(len(summary.split()) for summary in gold) / len(gold))
        return [" ".join(e.text.split()[:length]) for e in examples]

    def _scorer(self) -> Any:
        try:
            from rouge_score.rouge_scorer import RougeScorer
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                'Scores of summaries need the package rouge-score: pip install "gradaccord[train]".',
                name="rouge_score",
            ) from error
        own = _SpacedWords() if self.words == "spaced" else None
        return RougeScorer(list(ROUGE), use_stemmer=self.stemming, tokenizer=own)


class _SpacedWords:
    """What stands between spaces, in lower case, without the punctuation around it."""

    def tokenize(self, text: str) -> list[str]:
        words = ("".join(c for c in w if unicodedata.category(c)[0] != "P") for w in text.split())
        return [word.casefold() for word in words if word]
