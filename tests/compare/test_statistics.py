"""Means, paired differences, p values and their correction."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from gradaccord.compare.statistics import Difference, Mean, holm


def test_p_values_are_those_of_scipy():
    generator = np.random.default_rng(0)
    ours, theirs = generator.normal(1, 1, 6), generator.normal(0, 1, 6)
    difference = Difference.between(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert difference.p == pytest.approx(ttest_rel(ours, theirs).pvalue, rel=1e-10)
    assert difference.mean == pytest.approx((ours - theirs).mean())
    assert difference.error == pytest.approx((ours - theirs).std(ddof=1) / math.sqrt(6))


def test_only_seeds_that_both_have_count():
    difference = Difference.between({0: 1.0, 1: 3.0, 2: 5.0}, {1: 1.0, 2: 2.0, 7: 9.0})
    assert difference.count == 2
    assert difference.mean == 2.5


def test_one_seed_has_no_error_and_no_p():
    assert math.isnan(Mean.of([3.0]).error)
    assert math.isnan(Difference.between({0: 1.0}, {0: 2.0}).p)
    assert str(Mean.of([])) == "–"


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        ([71.0, 73.0], [70.0, 72.0], "2 pairs"),  # equal differences: p was 0
        ([71.0, 74.0], [70.0, 72.0], "2 pairs"),
        ([71.0, 73.0, 75.0], [70.0, 72.0, 74.0], "equal differences"),
        ([70.1, 80.2, 90.3], [69.1, 79.2, 89.3], "equal differences"),  # to rounding
        ([70.0, 71.0, 72.0], [70.0, 71.0, 72.0], "equal differences"),
    ],
)
def test_two_seeds_or_equal_differences_have_no_p_value(ours, theirs, why):
    difference = Difference.between(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert math.isnan(difference.p)
    assert difference.no_p == why
    assert not difference.clear
    assert str(difference) == f"{np.mean(np.subtract(ours, theirs)):+.2f} (no p: {why})"


def reference_holm(ps):
    """Holm (1979) as he states it: reject from the smallest p on while p < level / tests left.

    The corrected p is the lowest level at which a test is rejected, found here by trying levels.
    """
    order = np.argsort(ps)
    found = np.ones(len(ps))
    for place, index in enumerate(order):
        levels = [ps[i] * (len(ps) - k) for k, i in enumerate(order[: place + 1])]
        found[index] = min(max(levels), 1.0)
    return found


def test_holm_is_the_published_procedure_on_a_hand_computed_example():
    # p = 0.01, 0.04, 0.03, 0.005 (the example of R's p.adjust): 0.03, 0.06, 0.06, 0.02
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02], abs=1e-15)
    assert holm([]) == []
    assert holm([0.7, 0.6]) == [1.0, 1.0]


def test_holm_rejects_what_the_step_down_procedure_rejects_at_every_level():
    generator = np.random.default_rng(0)
    for count in (1, 2, 5, 40):
        ps = list(generator.uniform(0, 1, count) ** 3)
        corrected = holm(ps)
        assert corrected == pytest.approx(reference_holm(ps), rel=1e-12)
        for level in (0.01, 0.05, 0.2):
            left = sorted(ps)
            while left and left[0] <= level / len(left):
                left.pop(0)
            assert sum(p <= level for p in corrected) == count - len(left)


def test_tests_without_a_p_value_are_not_counted_by_holm():
    got = holm([0.01, math.nan, 0.02])
    assert (got[0], got[2]) == (0.02, 0.02)
    assert math.isnan(got[1])
