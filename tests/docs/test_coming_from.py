"""docs/coming-from: the same program in two libraries ends with the same weights."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch
from doc_pages import DOCS, blocks

pytestmark = pytest.mark.usefixtures("one_thread")
LIBMTL = (
    Path(sys.prefix) / "libmtl"
)  # `make` installs it there, without the torchvision that it asks for


def ends(page):
    """The weights at the end of each program of a page, by the title of its block."""
    found = {}
    for block in blocks(DOCS / "coming-from" / page, "python"):
        names = {}
        torch.manual_seed(0)
        block.run(names)
        weights = [p.detach() for p in names["modules"].parameters()]
        found[block.title] = sorted(weights, key=lambda p: (p.shape, float(p.sum())))
    return found


def same(page, other):
    found = ends(page)
    assert list(found) == [other, "gradaccord"]
    for theirs, ours in zip(found[other], found["gradaccord"], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_torchjd():
    pytest.importorskip("torchjd")
    same("torchjd.md", "TorchJD")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_higher():
    pytest.importorskip("higher")
    same("higher.md", "higher")


def test_libmtl(monkeypatch):
    if not (LIBMTL / "LibMTL").is_dir():
        pytest.skip(f"LibMTL is not installed: pip install --no-deps --target {LIBMTL} LibMTL")
    package = types.ModuleType("LibMTL")  # its own __init__ imports torchvision
    package.__path__ = [str(LIBMTL / "LibMTL")]
    monkeypatch.setitem(sys.modules, "LibMTL", package)
    same("libmtl.md", "LibMTL")


def test_learn2learn_is_said_not_to_be_run():
    page = DOCS / "coming-from" / "learn2learn.md"
    assert [block.title for block in blocks(page, "text")] == ["learn2learn, not run here"]
    assert list(ends("learn2learn.md")) == ["gradaccord"]
