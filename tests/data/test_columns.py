"""`files.columns`: rows of every kind."""

from __future__ import annotations

import pytest
from data_files import KIND_ROWS, write

from gradaccord import data


@pytest.mark.parametrize("kind", KIND_ROWS)
def test_every_kind_from_json_lines(tmp_path, kind):
    row, columns, expected = KIND_ROWS[kind]
    path = write(tmp_path / "a.jsonl", [row])
    assert data.read(kind, {"train": path}, columns).split("train") == [expected]
