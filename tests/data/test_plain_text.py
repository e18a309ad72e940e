"""`text.plain_text`: NTREX."""

from __future__ import annotations

from data_files import only, put

from gradaccord import data


def test_ntrex(tmp_path):
    put(tmp_path, "NTREX-128/newstest2019-ref.fra-CA.txt", "Un\u2028e\nDeux\n")
    assert only("ntrex/fra-CA", tmp_path, "test").text == "Un\u2028e"  # not a line's end
    assert data.load("ntrex", tmp_path).counts == {"test": 2}
