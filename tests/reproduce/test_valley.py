"""The valley of Yu et al. 2020: losses by hand, and a run of each method."""

import math

import pytest

from gradaccord.reproduce.special.valley import Valley, valley


def test_the_losses_are_those_of_the_formula():
    at = Valley((0.5, -3.0))
    assert at.first().item() == pytest.approx(20 * math.log(abs(0.25 + math.tanh(-3))))
    assert at.second().item() == pytest.approx(25 * math.log(abs(0.25 - math.tanh(-3) + 2)))


def test_seed_0_is_the_published_start_and_methods_take_other_ways(tmp_path):
    found = {
        name: valley({"method": name, "steps": 40, "lr": 0.1}, 0, data=None, folder=tmp_path)
        for name in ("sum", "pcgrad")
    }
    assert found["sum"].curve[0].values == found["pcgrad"].curve[0].values
    assert found["sum"].test != found["pcgrad"].test
