"""`images.omniglot`: its counts and split."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from gradaccord.data.images import omniglot

pytest.importorskip("PIL")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


SHARED = Path(__file__).resolve().parents[2] / "../shared/data"


@pytest.mark.skipif(not (SHARED / "omniglot").is_dir(), reason="no ../shared/data/omniglot")
def test_omniglot_has_its_counts_and_the_published_split():
    splits = omniglot.load(SHARED / "omniglot")
    assert len(splits.train) == 4 * 1150
    assert len(splits.validation) == 50
    assert len(splits.test) == 423
    for part in (splits.train, splits.validation, splits.test):
        assert part.images.shape[1:] == (1, 28, 28)
        assert part.images.dtype == torch.uint8
        assert part.counts.unique().tolist() == [20]
    upright = set(splits.train.names[:1150])
    assert not upright & (set(splits.validation.names) | set(splits.test.names))
    assert float((splits.test.images > 127).float().mean()) < 0.25  # ink is bright, paper dark
    start = time.process_time()
    again = omniglot.load(SHARED / "omniglot")  # from the cache
    assert time.process_time() - start < 2
    assert torch.equal(again.train.images, splits.train.images)
