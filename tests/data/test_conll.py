"""`files.conll`: lines that cannot be."""

from __future__ import annotations

from data_files import put, refused


def test_a_line_of_other_columns(tmp_path):
    put(tmp_path, "wikiann/de/train.conll", "A\tB-PER\nUlm\n\n")
    assert "line 2: 1 columns where 2 are expected" in refused("wikiann/de", tmp_path)
