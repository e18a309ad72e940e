"""The smallest effect that a test could see."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from gradaccord.compare.statistics import Difference
from gradaccord.report.answer import half_interval, smallest_effect


def difference(values):
    return Difference.between(dict(enumerate(values)), dict.fromkeys(range(len(values)), 0.0))


def test_the_interval_is_scipy_s():
    values = [1.0, 2.5, 0.5, 3.0]
    low, high = ttest_1samp(values, 0).confidence_interval()
    assert half_interval(difference(values)) == pytest.approx((high - low) / 2)


def test_four_of_five_tests_see_the_smallest_effect():
    draws = np.random.default_rng(0).normal(size=(20000, 10))
    effect = smallest_effect(difference([1.0, -1.0] * 5)) / np.std([1.0, -1.0] * 5, ddof=1)
    assert (ttest_1samp(draws + effect, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.02)


def test_without_a_test_there_is_none():
    assert math.isnan(smallest_effect(difference([1.0, 2.0])))
