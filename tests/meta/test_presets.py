"""Published hyper-parameters."""

from __future__ import annotations

from gradaccord.meta.presets import find_preset


def test_rates_of_finn_are_those_of_a_mean_loss():
    """0.4 on a sum over five ways is 2.0 on their mean."""
    assert find_preset("maml-omniglot-5way").settings["inner_lr"] == 2.0
    assert find_preset("maml-omniglot-20way").settings["inner_lr"] == 2.0
    assert find_preset("maml-miniimagenet").settings["inner_lr"] == 0.05
