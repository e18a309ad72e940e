"""Options that several commands share: how a file differs, and the cluster behind one."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from gradaccord.cli.options import cluster_runner, reading_options


@pytest.mark.parametrize(
    ("columns", "header", "found"),
    [
        (None, None, {}),
        (None, False, {"header": False}),
        ("text, label", True, {"header": True, "columns": ["text", "label"]}),
        ("first=review, label = stars", None, {"columns": {"first": "review", "label": "stars"}}),
        ("a=b=c", None, {"columns": {"a": "b=c"}}),
    ],
)
def test_columns_are_names_in_order_or_by_field(columns, header, found):
    assert reading_options(columns, header) == found


def test_half_named_columns_are_refused():
    with pytest.raises(ValueError, match="--columns is 'a=b,c': give FIELD=COLUMN for each, or names"):
        reading_options("a=b,c", None)


def test_without_a_cluster_there_is_no_runner():
    with ExitStack() as stack:
        assert cluster_runner(None, 4, print, stack) is None
