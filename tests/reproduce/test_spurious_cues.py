"""Spurious cues: interpolation at equal loss, and what is learned without strong cues."""

import pytest

from gradaccord.reproduce.special.spurious_cues import accuracy_at, spurious_cues


def test_accuracy_is_interpolated_where_the_loss_first_falls_to_a_value():
    assert accuracy_at(0.5, [0.7, 0.6, 0.4, 0.55], [50, 60, 80, 90]) == pytest.approx(70)
    assert accuracy_at(0.9, [0.7], [50.0]) == 50.0
    with pytest.raises(ValueError, match="fell to 0.700 only"):
        accuracy_at(0.5, [0.7], [50.0])


def test_a_strong_cue_of_its_own_costs_accuracy_in_a_new_domain(tmp_path):
    few = {"steps": 60, "lr": 0.5, "losses": [0.6], "domains": 4, "method": "pcgrad"}
    with_own = spurious_cues(few, 0, data=None, folder=tmp_path)
    without = spurious_cues({**few, "own": 0.0, "common": 1.0}, 0, data=None, folder=tmp_path)
    assert without.test["loss 0.6"]["accuracy"] > with_own.test["loss 0.6"]["accuracy"] + 5
