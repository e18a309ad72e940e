"""Everything that a configuration of pretraining names, loaded: texts, tokenizer, sequences, model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradaccord.core.replay import seeded
from gradaccord.core.watch import NOBODY, Watch
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.pretrain.config import PretrainConfig
from gradaccord.pretrain.model import make_model, source_of
from gradaccord.pretrain.packing import Packed, pack, unigram_loss
from gradaccord.pretrain.texts import load_texts
from gradaccord.pretrain.tokenizer import trained_tokenizer
from gradaccord.runs.launcher import fewer_than_asked
from gradaccord.runs.ranks import where

UNKNOWN = 0.02  # share of unknown tokens above which there is a warning
SHOWN = 6  # languages named in a sentence


@dataclass(frozen=True)
class PretrainProblem:
    """The model that is trained, and the texts it is trained on."""

    model: Any
    tokens: HuggingFaceTokens
    train: Sequence[Packed]
    held_out: Sequence[Packed]
    left_out: dict[str, int]
    unigrams: dict[str, float]
    weights: str  # where the model's weights come from
    steps: int

    @property
    def languages(self) -> list[str]:
        """The names of the languages, in the order of their numbers."""
        return [own.language for own in self.train]


def load_problem(
    config: PretrainConfig,
    folder: Path | None = None,
    watch: Watch = NOBODY,
    tokenizer: Path | None = None,
) -> PretrainProblem:
    """Read, tokenise, build the model. folder: of the data sets. tokenizer: the run's own, if saved."""
    source = source_of(config)
    named = None if config.tokenizer is None else config.tokenizer.name
    texts = load_texts(config, folder, watch)
    if tokenizer is not None and tokenizer.is_dir():
        tokens = HuggingFaceTokens.load(tokenizer)
    elif named or source:
        tokens = HuggingFaceTokens.load(named or source or "")
    else:
        tokens = trained_tokenizer(config, texts, watch)
    with seeded(config.train.seed):
        model, weights = make_model(config, source, tokens)
    known = tokens.masking()
    length, words = config.length, config.whole_words
    train = [pack(own, 0, tokens, length, words, watch) for own in texts]
    held_out = [pack(own, 1, tokens, length, words, watch) for own in texts]
    batch = config.train.batch_size
    steps = config.train.steps or round((config.train.epochs or 1) * sum(map(len, train)) / batch)
    left_out = (
        {}
        if not config.leave_out
        else {
            own.language: len(own) - own_train.texts - own_held.texts
            for own, own_train, own_held in zip(texts, train, held_out, strict=True)
        }
    )
    pairs = zip(train, held_out, strict=True)
    return PretrainProblem(
        model=model,
        tokens=tokens,
        train=train,
        held_out=held_out,
        left_out={language: count for language, count in left_out.items() if count},
        unigrams={own.language: unigram_loss(own, held, known) for own, held in pairs},
        weights=weights,
        steps=max(steps, 1),
    )


def start_messages(config: PretrainConfig, problem: PretrainProblem, accelerator: Any) -> Iterator[str]:
    """The messages at the start of a run: model, device, texts, steps, and warnings about the texts."""
    weights = sum(p.numel() for p in problem.model.parameters())
    yield (
        f"{config.model.name}, {problem.weights}: {weights / 1e6:.1f} M weights, "
        f"{problem.tokens.size:,} pieces; {where(accelerator)}."
    )
    missing = fewer_than_asked(accelerator.num_processes)
    if missing is not None:
        yield missing
    tokens, rows = (sum(map(measure, problem.train)) for measure in (lambda p: len(p.flat), len))
    held = sum(len(own.flat) for own in problem.held_out)
    count = len(problem.train)
    yield (
        f"{count} language{'s' * (count > 1)}, {sum(own.texts for own in problem.train):,} texts: "
        f"{tokens:,} tokens in {rows:,} sequences of {config.length}; {held:,} tokens are held out."
    )
    seen = problem.steps * config.train.batch_size
    yield (
        f"{problem.steps:,} steps of {config.train.batch_size} sequences: {seen / rows:.2f} "
        "passes over all texts."
    )
    if count == 1:
        yield f"There is one language, {problem.languages[0]}: `balance` changes nothing."
    if problem.left_out:
        most = sorted(problem.left_out.items(), key=lambda item: -item[1])[:SHOWN]
        total = sum(problem.left_out.values())
        named = ", ".join(f"{language} {n:,}" for language, n in most)
        yield f"Left out because evaluation sets contain them: {total:,} texts (most: {named})."
    unknown = problem.tokens.unknown
    for own in problem.train:
        share = 0.0 if unknown is None else int(own.flat.eq(unknown).sum()) / len(own.flat)
        if share > UNKNOWN:
            yield f"{own.language}: {share:.0%} of its tokens are unknown to the tokenizer."
