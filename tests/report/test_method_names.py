"""Short names of methods."""

import pytest

from gradaccord.report.method_names import short_name, short_names


@pytest.mark.parametrize(
    ("method", "short"),
    [
        ("sequential_reptile:inner_steps=20,outer_lr=0.3", "seq. reptile (K 20, eta .3)"),
        ("paired_sum@1.1", "paired sum (lr x1.1)"),
        ("sum+smart", "sum + smart"),
        ("stl", "stl"),
    ],
)
def test_names_are_short_and_keep_their_options(method, short):
    assert short_name(method) == short


def test_two_methods_never_share_a_name():
    assert len(set(short_names(["sum", "pcgrad", "paired_sum", "paired_sum@1.1"]).values())) == 4
