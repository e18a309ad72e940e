"""Methods inside trainers that people already use: Hugging Face Trainer, TRL, sentence-transformers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {  # imported when first used: the mixin needs no transformers, the trainer does
    "AlignedMixin": "gradaccord.integrations.mixin",
    "AlignedTrainer": "gradaccord.integrations.trainer",
}

__all__ = ["AlignedMixin", "AlignedTrainer"]

if TYPE_CHECKING:
    from gradaccord.integrations.mixin import AlignedMixin as AlignedMixin
    from gradaccord.integrations.trainer import AlignedTrainer as AlignedTrainer


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gradaccord.integrations' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
