"""The built site, which several tests look at."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Its folder; all workers share it."""
    for needed in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(needed)
    from built_site import build

    base = tmp_path_factory.getbasetemp()
    return build(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)
