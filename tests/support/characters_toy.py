"""The character encoder after a few seconds of pretraining, in a cache of its own."""

from __future__ import annotations

import pytest

from gradaccord.models.trunks.pretrained_characters import pretrained_characters

STEPS = 60


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADACCORD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def pretrained(own_cache):
    seen = []
    trunk, tokens = pretrained_characters(steps=STEPS, progress=seen.append)
    return trunk, tokens, seen
