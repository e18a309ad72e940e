"""Published hyper-parameters."""

from __future__ import annotations

from gradaccord.meta.presets import find_preset, ten_times_inner_rate


def test_rates_of_finn_are_those_of_a_mean_loss():
    """0.4 on a sum over five ways is 2.0 on their mean."""
    assert find_preset("maml-omniglot-5way").settings["inner_lr"] == 2.0
    assert find_preset("maml-omniglot-20way").settings["inner_lr"] == 2.0
    assert find_preset("maml-miniimagenet").settings["inner_lr"] == 0.05
    recipe = ten_times_inner_rate()
    assert sorted(run["inner_lr"] for run in recipe.runs.values()) == [0.1, 0.1, 1.0, 1.0]
    assert sum(run["share"] for run in recipe.runs.values()) == 2
