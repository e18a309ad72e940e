"""`gradaccord report`: a folder that cannot be shown is one sentence; pages are in tests/report."""

from __future__ import annotations

import pytest
from train_toy import said


@pytest.mark.parametrize("name", ["none", "empty"])
def test_a_folder_without_results_is_one_sentence_and_gets_no_page(name, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert str(tmp_path / name) in said(capsys, "report", tmp_path / name)
    assert not list(tmp_path.rglob("*.html"))
