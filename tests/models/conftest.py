"""A small checkpoint of every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest
from characters_toy import own_cache, pretrained
from small_models import ARCHITECTURES, save_checkpoint

__all__ = ["architecture", "folder", "own_cache", "pretrained"]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp(architecture), architecture)
