"""Means, paired differences, p values and their correction."""

import math

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp, ttest_rel

from gradaccord.compare.statistics import (
    Difference,
    Mean,
    corrected,
    holm,
    holm_levels,
    short_p,
    smallest_shift,
)


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


def to_zero(values):
    return Difference.between(dict(enumerate(values)), dict.fromkeys(range(len(values)), 0.0))


@pytest.mark.parametrize(("count", "expected"), [(3, 3.26), (5, 1.68), (8, 1.16)])
def test_four_of_five_tests_find_the_smallest_effect(count, expected):
    """By simulation: normal differences about the effect, tested by scipy."""
    values = np.random.default_rng(1).normal(size=count)
    effect = to_zero(values).smallest_effect / values.std(ddof=1)
    assert effect == pytest.approx(expected, abs=0.005)
    draws = np.random.default_rng(0).normal(effect, 1, size=(40000, count))
    assert (ttest_1samp(draws, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("tests", [4, 40, 1000])
def test_the_smallest_effect_is_right_at_strict_levels(tests):
    """Also where the noncentral t of scipy is not a number: t = (normal + shift) / chi, drawn."""
    for count in (3, 5, 20):
        shift, level = smallest_shift(count, 0.05 / tests), 0.05 / tests
        generator = np.random.default_rng(0)
        normal = generator.normal(shift, 1, 200_000)
        drawn = normal / np.sqrt(generator.chisquare(count - 1, 200_000) / (count - 1))
        found = np.abs(drawn) > t.isf(level / 2, count - 1)
        assert found.mean() == pytest.approx(0.8, abs=0.005)


def test_levels_are_the_highest_p_that_holm_calls_real():
    """By trial: each p, clear or not, is moved to just below and just above its level."""
    generator = np.random.default_rng(0)
    for count in (1, 3, 8, 8, 8):
        ps = list(generator.uniform(0, 1, count) ** 4)
        for i, level in enumerate(holm_levels(ps)):
            for factor, real in ((0.999, True), (1.001, False)):
                assert (holm([*ps[:i], factor * level, *ps[i + 1 :]])[i] < 0.05) == real
    assert holm_levels([0.001, 0.002, 0.003]) == [0.05] * 3  # the other two are real in any case


def test_a_difference_that_is_not_clear_says_what_could_be_seen():
    alone = to_zero([1.0, -1.0, 2.0, 0.5, -0.4])
    family = corrected({"a": alone, "b": alone, "c": to_zero([1.0, 2.0])})
    assert family["a"].level == 0.025
    assert family["a"].smallest_effect > alone.smallest_effect
    assert str(alone).endswith(f", could detect {alone.smallest_effect:.2f})")
    clear = to_zero([9.0, 10.0, 11.0])
    assert clear.clear
    assert "could detect" not in str(clear)
    assert math.isnan(to_zero([1.0, 2.0]).smallest_effect)
    assert str(to_zero([1.0, 2.0])) == "+1.50 (no p: 2 pairs)"


def test_the_interval_is_scipy_s():
    values = [1.0, 2.5, 0.5, 3.0]
    low, high = ttest_1samp(values, 0).confidence_interval()
    difference = Difference.between(dict(enumerate(values)), dict.fromkeys(range(4), 0.0))
    assert difference.half_interval == pytest.approx((high - low) / 2)


def test_without_a_test_there_is_no_interval():
    assert math.isnan(Difference.between({0: 1.0, 1: 2.0}, {0: 0.0, 1: 0.0}).half_interval)


def test_a_small_gain_is_a_gain_and_a_loss_is_not():
    gain = to_zero([0.09, 0.1, 0.11])
    assert gain.clear_gain
    loss = to_zero([-0.09, -0.1, -0.11])
    assert loss.clear
    assert not loss.clear_gain


@pytest.mark.parametrize(
    ("p", "shown"),
    [(0.0009, "< 0.001"), (0.001, "0.001"), (0.0999, "0.100"), (0.1, "0.10"), (0.5, "0.50")],
)
def test_a_p_value_has_as_many_digits_as_mean_something(p, shown):
    assert short_p(p) == shown
