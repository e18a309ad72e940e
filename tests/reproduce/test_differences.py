"""Tests of arms against baseline and control, from made records."""

import math
import statistics

import numpy as np
import pytest
from reproduce_toy import made_record, save_made
from scipy.stats import nct, t, ttest_rel

from gradaccord.compare.statistics import holm
from gradaccord.reproduce.differences import ALL, current_records, differences_of
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.verdict import status_of

NOISE = {0: 0.0, 1: 1.0, 2: -0.5}
SHIFT = {"plain": 0.0, "pcgrad": 4.0, "paired": 0.5}
VARIANT = {"one": 60.0, "two": 70.0}


def value(planned):
    """The third seed of PCGrad differs, so that differences have a spread."""
    own = 0.3 if (planned.arm, planned.seed, planned.variant) == ("pcgrad", 2, "one") else 0.0
    own += 0.2 * planned.seed * (planned.arm == "paired")
    return VARIANT[planned.variant] + SHIFT[planned.arm] + NOISE[planned.seed] + own


@pytest.fixture
def tests(trio, tmp_path):
    save_made(trio, tmp_path, value)
    return differences_of(trio.small, current_records(trio, tmp_path))


def test_each_pair_is_tested_once_at_each_budget_and_the_primary_comes_first(tests):
    assert [test.primary for test in tests].count(True) == 1
    first = tests[0]
    assert (first.scope, first.budget, first.arm, first.against) == (ALL, "epochs", "pcgrad", "plain")
    found = {(test.scope, test.budget, test.arm, test.against) for test in tests}
    assert found == {
        (scope, *rest)
        for scope in ("one", "two", ALL)
        for rest in (
            ("epochs", "pcgrad", "plain"),
            ("epochs", "paired", "plain"),
            ("gradients", "paired", "plain"),
        )
    }


def test_numbers_are_those_of_a_paired_t_test_corrected_within_the_entry(tests):
    first = tests[0]
    ours, theirs = [69.0, 70.0, 68.65], [65.0, 66.0, 64.5]  # means of both variants
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    assert first.difference.mean == pytest.approx(statistics.fmean(differences))
    assert first.difference.p == pytest.approx(ttest_rel(ours, theirs).pvalue)
    raw = [test.difference.p for test in tests]
    np.testing.assert_array_equal([test.difference.p_holm for test in tests], holm(raw))
    assert np.isfinite(raw).sum() > 3  # of more than one scope
    error = statistics.stdev(differences) / math.sqrt(3)
    assert first.half == pytest.approx(t.ppf(0.975, 2) * error)
    critical = t.ppf(1 - first.difference.level / 2, 2)
    assert nct.sf(critical, 2, first.detectable / error) == pytest.approx(0.8, abs=1e-3)
    assert first.better
    assert not first.worse


def test_lower_may_be_better_and_a_reversed_pair_is_not_tested_twice(trio, tmp_path):
    save_made(trio, tmp_path, value)
    primary = trio.small.primary.model_copy(
        update={"arm": "plain", "against": "pcgrad", "better": "lower", "variant": "one"}
    )
    design = trio.small.model_copy(update={"primary": primary})
    first, *rest = differences_of(design, current_records(trio, tmp_path))
    assert (first.scope, first.arm, first.gain > 0, first.better) == ("one", "plain", True, True)
    assert not [test for test in rest if (test.scope, test.arm) == ("one", "pcgrad")]


def test_records_of_other_settings_do_not_count(trio, tmp_path):
    save_made(trio, tmp_path, value, replace={"train": {"lr": 1.0}})
    assert current_records(trio, tmp_path) == []
    assert differences_of(trio.small, []) == []


def test_an_arm_that_never_reaches_the_score_is_not_tested_for_speed(trio, tmp_path):
    """Its last step is a lower bound, which would count in its favour; one of the control's may."""
    primary = trio.small.primary.model_copy(
        update={"metric": "steps to 50", "better": "lower", "variant": "one"}
    )
    design = trio.small.model_copy(update={"primary": primary})

    def tested(late):
        for planned in plan(trio, budget="epochs", variants=["one"]):
            end = 40.0 if (planned.arm, planned.seed) == late else 60.0 + planned.seed
            points = [(100, 10.0 * (planned.arm == "pcgrad")), (900, end)]
            curve = [
                {"step": step, "gradients": step, "seconds": 1, "values": {"average": average}}
                for step, average in points
            ]
            made_record(planned, 0.0, curve=curve).save(planned.path(tmp_path).parent)
        found = differences_of(design, current_records(trio, tmp_path))
        return [test for test in found if test.primary]

    assert tested(("plain", 1))[0].difference.count == 3
    assert not tested(("pcgrad", 1))
    assert not [one for one in differences_of(design, []) if one.scope == ALL]  # a test of one variant
    entry = trio.model_copy(update={"small": design})
    found = status_of(entry, tmp_path)
    assert found.verdict == "not testable here"
    assert found.result.startswith("1 runs of pcgrad never reach the score of 'steps to 50'")
