"""The advisor: the command that it ends with."""

from __future__ import annotations

import pytest

from gradaccord.compare.advisor import Advice, compare_command
from gradaccord.compare.recommendation import Recommendation
from gradaccord.probe.conflict import Bounds, Conflict


@pytest.mark.parametrize(
    ("train", "budget"), [({}, ""), ({"steps": None, "seconds": 9}, " --budget seconds")]
)
def test_the_command_is_quoted_for_the_shell_and_has_the_budget_s_unit(configured, train, budget):
    measured = Conflict((), (), 4, 1, 1, "", "", Bounds(1.0, 1.0, 1.0))
    advice = Advice(1, measured, Recommendation(("sum:normalize=true", "loss_scale"), ()), {})
    typed = compare_command(advice, configured(train=train), "my file.yaml", ("--data", "d"))
    methods = "'sum:normalize=true; loss_scale'"
    assert typed == f"gradaccord compare 'my file.yaml' --data d{budget} --methods {methods} --seeds 5"
