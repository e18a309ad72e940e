"""Intervals of differences."""

import math

import pytest
from scipy.stats import ttest_1samp

from gradaccord.compare.statistics import Difference
from gradaccord.report.answer import half_interval


def difference(values):
    return Difference.between(dict(enumerate(values)), dict.fromkeys(range(len(values)), 0.0))


def test_the_interval_is_scipy_s():
    values = [1.0, 2.5, 0.5, 3.0]
    low, high = ttest_1samp(values, 0).confidence_interval()
    assert half_interval(difference(values)) == pytest.approx((high - low) / 2)


def test_without_a_test_there_is_none():
    assert math.isnan(half_interval(difference([1.0, 2.0])))
