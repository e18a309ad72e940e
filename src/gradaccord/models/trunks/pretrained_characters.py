"""A character encoder pretrained on names in fifty languages; takes a minute, and is cached.

Masked characters of the CLDR's names are predicted from their neighbours. Only names of training
concepts are read, and none that is also the name of a dev or test concept in any of the languages, so
that no name the `cldr` problem is evaluated on was seen, not even as plain text.

What it is for: a model that has something to forget (masked-LM loss, distance from the start). On the
problem's own accuracy it gives little or nothing (`benchmarks/pretraining.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gradaccord.core.checks import whole_number
from gradaccord.core.replay import seeded
from gradaccord.core.threads import one_thread
from gradaccord.data.files.tensor_cache import Kept, cached
from gradaccord.data.text import cldr
from gradaccord.data.text.masking import Mask
from gradaccord.models.trunks.characters import CharacterTokens, CharacterTrunk
from gradaccord.models.trunks.trunk import Pooling

# Those that the problem trains on, those it is evaluated on unseen, and relatives and neighbours.
LANGUAGES = (
    *cldr.LANGUAGES, *cldr.UNSEEN_LANGUAGES,
    "az", "be", "bg", "ca", "cs", "da", "fi", "ig", "ml", "nb", "pa", "ro", "so", "tk",
)  # fmt: skip

STEPS = 1600
BATCH = 192  # names
MAX_LENGTH = 32  # characters
SHARE = 0.2  # of characters that are masked
RATE = 4e-3
WARM_UP = 0.05  # of the steps
_FORMAT = 2  # to be raised when the result changes


@dataclass(frozen=True)
class CharacterProgress:
    """How far pretraining is."""

    step: int
    steps: int
    loss: float  # mean over the last steps, nats per masked character


def pretrained_characters(
    *,
    seed: int = 0,
    steps: int = STEPS,
    pooling: Pooling | None = None,
    progress: Callable[[CharacterProgress], None] = lambda progress: None,
) -> tuple[CharacterTrunk, CharacterTokens]:
    """The pretrained encoder, from the cache if it is there; the same for the same seed.

    Leaves torch's random state and number of threads as they were. `trunk.masked_lm_head()` is the
    layer that it was pretrained with.
    """
    whole_number("steps", steps)
    options = [_FORMAT, _babel_version(), seed, steps, BATCH, MAX_LENGTH, SHARE, RATE, *LANGUAGES]
    make = partial(_pretrain, seed, steps, progress)
    weights, texts = cached("characters", json.dumps(options), make)
    tokens = CharacterTokens(json.loads(texts["characters"]))
    lm = weights.pop("lm.weight"), weights.pop("lm.bias")
    with torch.random.fork_rng(devices=[]):  # fresh weights, at once replaced
        trunk = CharacterTrunk(tokens.size, pooling=pooling, lm=lm)
    trunk.load_state_dict(weights)
    return trunk, tokens


def training_names(languages: Sequence[str] = LANGUAGES) -> list[str]:
    """Every name of a training concept, except those that also name a dev or test concept."""
    held_out = {
        name.text.casefold()
        for language in languages
        for name in cldr.names(language)
        if cldr.split_of(name.concept) != "train"
    }
    return [
        name.text
        for language in languages
        for name in cldr.names(language)
        if cldr.split_of(name.concept) == "train" and name.text.casefold() not in held_out
    ]


def _pretrain(seed: int, steps: int, progress: Callable[[CharacterProgress], None]) -> Kept:
    with one_thread(), seeded(seed):
        return _trained(training_names(), seed, steps, progress)


def _trained(
    names: Sequence[str], seed: int, steps: int, progress: Callable[[CharacterProgress], None]
) -> Kept:
    tokens = CharacterTokens.from_texts(names)
    rows = tokens.padded(names, MAX_LENGTH)
    trunk = CharacterTrunk(tokens.size)
    head = nn.Linear(trunk.hidden, tokens.size)
    mask = Mask(tokens.masking(), SHARE)
    optimizer = torch.optim.AdamW([*trunk.parameters(), *head.parameters()], lr=RATE)
    warm_up = max(WARM_UP * steps, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, 1 - step / steps)
    )
    recent = 0.0
    for step, places in enumerate(_batches(rows, steps, seed)):
        ids = rows[places]
        ids = ids[:, : int((ids != 0).sum(1).max())]
        seen, chosen = mask(ids)
        loss = cross_entropy(head(trunk.encoder(seen)[chosen]), ids[chosen])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
        recent = loss.item() if not step else 0.95 * recent + 0.05 * loss.item()
        progress(CharacterProgress(step + 1, steps, recent))
    weights = {name: value.detach() for name, value in trunk.state_dict().items()}
    weights |= {"lm.weight": head.weight.detach(), "lm.bias": head.bias.detach()}
    return weights, {"characters": json.dumps(list(tokens.characters))}


def _batches(rows: torch.Tensor, steps: int, seed: int) -> list[torch.Tensor]:
    """Batches of names of about one length, in random order."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (rows != 0).sum(1)
    found: list[torch.Tensor] = []
    while len(found) < steps:
        noise = torch.rand(len(rows), generator=generator, device="cpu")
        order = (lengths + 2 * noise).argsort()
        batches = list(torch.split(order, BATCH))
        found += [batches[i] for i in torch.randperm(len(batches), generator=generator, device="cpu")]
    return found[:steps]


def _babel_version() -> str:
    cldr.names("en")  # its error says how to get the package
    from importlib.metadata import version

    return version("babel")
