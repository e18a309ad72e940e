"""`images.glyphs`: drawn characters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gradaccord.data.images import glyphs

pytest.importorskip("PIL")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


def test_glyphs_have_over_a_thousand_classes_split_by_code_point_and_are_the_same_again(
    tmp_path, monkeypatch
):
    first = glyphs.draw()
    assert len(first) > 1000
    told = (Path(__file__).parents[2] / "docs" / "fewshot.md").read_text()
    assert f"`glyphs` are {len(first):,} characters" in told
    assert f"{glyphs.SAMPLES} pictures each" in told
    assert first.counts.tolist() == [glyphs.SAMPLES] * len(first)
    assert first.images.shape[1:] == (1, 28, 28)
    ink = (first.images > 127).float().mean((1, 2, 3))
    assert float(ink.min()) > 0.005  # no empty picture
    assert float(ink.max()) < 0.6
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "another"))
    splits = glyphs.load()  # drawn anew, in another folder
    again = dict(zip(splits.test.names, splits.test.images.split(glyphs.SAMPLES), strict=True))
    for name, images in zip(first.names, first.images.split(glyphs.SAMPLES), strict=True):
        assert name not in again or torch.equal(images, again[name])
    parts = [set(part.names) for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) > 1000
    assert all(len(part) > 100 for part in parts)
