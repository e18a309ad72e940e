"""The trunks that a configuration may name: those of `models`, and the one that is pretrained here."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any

from gradaccord.core.options import options_of
from gradaccord.models.trunks import loading
from gradaccord.models.trunks.loading import BUILT_IN, Loaded, Maker
from gradaccord.models.trunks.trunk import Pooling


def load_trunk(name_or_folder: str, **options: Any) -> Loaded:
    """As `models.trunks.loading.load_trunk`, and by the name "characters" the encoder of the `cldr`
    names, pretrained on this machine the first time, which takes a minute.

    Options of "characters": pretrained (False: fresh weights, the same vocabulary), seed, steps and
    progress, see `pretrain.characters`.
    """
    return loading.load_trunk(name_or_folder, built_in=TRUNKS, **options)


def trunk_options(name: str) -> dict[str, Parameter] | None:
    """The options of a trunk that has a name; None: unknown until its folder is read."""
    if name not in TRUNKS:
        return None
    return {n: p for n, p in options_of(TRUNKS[name]).items() if p.kind is p.KEYWORD_ONLY}


def _characters(
    *,
    pooling: Pooling | None = None,
    pretrained: bool = True,
    seed: int = 0,
    steps: int | None = None,
    progress: Callable[[Any], None] = lambda progress: None,
) -> Loaded:
    from gradaccord.models.trunks.characters import CharacterTrunk
    from gradaccord.pretrain.characters import STEPS, pretrained_characters

    trunk, tokens = pretrained_characters(
        seed=seed, steps=steps or STEPS, pooling=pooling, progress=progress
    )
    if not pretrained:
        trunk = CharacterTrunk(tokens.size, pooling=pooling)
    return trunk, tokens


TRUNKS: dict[str, Maker] = {**BUILT_IN, "characters": _characters}
