"""Names that do not exist are answered with the nearest that does."""

from __future__ import annotations

import pytest

from gradaccord.core.did_you_mean import canonical, closest, nearest

KNOWN = ("pcgrad", "gradvac", "sequential_reptile")


def test_the_nearest_name_is_asked_for_and_without_one_all_are_listed():
    assert nearest("pcgard", KNOWN) == "did you mean 'pcgrad'?"
    for name in KNOWN:
        assert name in nearest("something else", KNOWN)
    assert closest("pcgard", KNOWN) == "pcgrad"
    assert closest("something else", KNOWN) is None


@pytest.mark.parametrize("spelled", ["sequential_reptile", "Sequential-Reptile", "SequentialReptile"])
def test_spelling_does_not_matter_to_a_name(spelled):
    assert canonical(spelled, KNOWN) == "sequential_reptile"
