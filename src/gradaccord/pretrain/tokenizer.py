"""A tokenizer trained on the texts: Unigram or WordPiece, with the languages balanced by p ~ N^0.3.

The trainers of `tokenizers` break ties by the order of their hash tables: two trainings on one text may
differ in a few pieces or scores. Therefore a run keeps its tokenizer, and so does the cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.files.tensor_cache import Kept, cached
from gradaccord.data.samplers import ProportionalTasks
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.pretrain.config import PretrainConfig, TokenizerConfig
from gradaccord.pretrain.texts import Texts

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
UNKNOWN, FIRST, END = SPECIAL[1:4]
_FORMAT = 1  # raise it with any change that makes another tokenizer


def trained_tokenizer(
    config: PretrainConfig, texts: Sequence[Texts], watch: Watch = NOBODY
) -> HuggingFaceTokens:
    """The tokenizer that a configuration asks for, from the cache if it was trained before."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    settings = config.tokenizer or TokenizerConfig()

    def make() -> Kept:
        return {}, {"tokenizer": _train(settings, balanced(texts, config, watch), watch).to_str()}

    known = f"{_FORMAT} {settings!r} {config.balance} {config.train.seed} {[t.identity for t in texts]}"
    described = cached("tokenizer", known, make, what="a tokenizer", watch=watch)[1]["tokenizer"]
    backend = Tokenizer.from_str(described)
    found = backend.get_vocab_size()
    if found < settings.size:
        raise ValueError(
            f"`tokenizer.size` is {settings.size}, and the texts support {found} pieces: "
            "give more text, or a smaller size."
        )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    fast: Any = PreTrainedTokenizerFast
    special = dict(zip(names, SPECIAL, strict=True))
    return HuggingFaceTokens(fast(tokenizer_object=backend, **special))


def balanced(texts: Sequence[Texts], config: PretrainConfig, watch: Watch = NOBODY) -> list[str]:
    """A sample of the training texts in which a language of N characters has a share ~ N^balance.

    If a language has too few, its texts are repeated.
    """
    settings = config.tokenizer or TokenizerConfig()
    sizes = {own.language: sum(map(len, own.of_role(0))) for own in texts}
    total = min(settings.characters, sum(sizes.values()))
    shares = ProportionalTasks(sizes, q=config.balance).probabilities
    sample: list[str] = []
    for done, own in enumerate(texts):
        watch.at("sampling texts for the tokenizer", done, len(texts))
        sample += _sampled(own, shares[own.language] * total, config.train.seed)
    return sample


def _sampled(own: Texts, characters: float, seed: int) -> Iterator[str]:
    """Texts of a language in random order, until they have this many characters."""
    lines = [*own.of_role(0)]
    generator = torch.Generator().manual_seed(seed)
    while characters > 0:
        for place in torch.randperm(len(lines), generator=generator, device="cpu").tolist():
            yield lines[place]
            characters -= len(lines[place])
            if characters <= 0:
                return


def _train(settings: TokenizerConfig, sample: list[str], watch: Watch) -> Any:
    """A trained `tokenizers.Tokenizer`; its own progress bars are not shown."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from tokenizers.processors import TemplateProcessing

    watch.at(f"training a tokenizer of {settings.size:,} pieces", 0, 0)
    made: Any
    if settings.kind == "unigram":
        made = Tokenizer(models.Unigram())
        made.normalizer = normalizers.Sequence(
            [normalizers.NFKC(), *([normalizers.Lowercase()] if settings.lowercase else [])]
        )
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        trainer: Any = trainers.UnigramTrainer
    else:
        made = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        made.normalizer = normalizers.BertNormalizer(lowercase=settings.lowercase, strip_accents=False)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer
    options: dict[str, Any] = {"unk_token": UNKNOWN} if settings.kind == "unigram" else {}
    sample = [made.normalizer.normalize_str(text) for text in sample]
    rare = _rare(Counter(character for text in sample for character in text), settings)
    try:
        made.train_from_iterator(
            (text.translate(rare) for text in sample),
            trainer(
                vocab_size=settings.size, special_tokens=[*SPECIAL], show_progress=False, **options
            ),
        )
    except Exception as error:
        if "not large enough" not in str(error):
            raise
        raise _too_small(settings) from error
    if made.get_vocab_size() > settings.size:  # WordPiece takes every character, however many
        raise _too_small(settings)
    made.post_processor = TemplateProcessing(
        single=f"{FIRST} $A {END}",
        pair=f"{FIRST} $A {END} $B:1 {END}:1",
        special_tokens=[(one, made.token_to_id(one)) for one in (FIRST, END)],
    )
    return made


def _rare(counts: Mapping[str, int], settings: TokenizerConfig) -> dict[int, str]:
    """Characters beyond the covered share, which do not become pieces: each is mapped to a space."""
    total, seen, rare = sum(counts.values()), 0, {}
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if seen >= settings.coverage * total:
            rare[ord(character)] = " "
        seen += count
    return rare


def _too_small(settings: TokenizerConfig) -> ValueError:
    return ValueError(
        f"`tokenizer.size` is {settings.size}, too few for the characters of the texts alone: give a "
        "larger one, or a smaller `tokenizer.coverage`."
    )
