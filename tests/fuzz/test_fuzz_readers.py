"""Damaged data and model files: each is read, or refused in one sentence that names a file."""

from __future__ import annotations

import pytest
from fuzz_corpus import CASES
from fuzz_readers import refused, try_reader
from fuzz_seeds import seeds
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

EXAMPLES, SLOW = 25, 4  # of each reader: together half a minute


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")


@pytest.mark.parametrize("name", seeds())
def test_whole_files_are_read(name):
    assert refused(seeds()[name], {}) is None


@pytest.mark.parametrize("name", seeds())
def test_damaged_files(name):
    seed = seeds()[name]

    @settings(
        max_examples=SLOW if seed.slow else EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[*HealthCheck],
    )
    @given(st.data())
    def tried(draw):
        try_reader(seed, draw)

    tried()


@pytest.mark.parametrize("case", CASES)
def test_every_known_bad_file_is_refused(case):
    name, changes, part = CASES[case]
    sentence = refused(seeds()[name], changes())
    assert sentence is not None
    assert part in sentence
