"""`gradaccord landscape`: both pictures and the numbers; a missing package is one sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gradaccord.cli.app import main
from gradaccord.showcase.landscape.runs import METHODS


def test_the_command_writes_both_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["landscape", "--fast", "--seeds", "2", "--out", str(tmp_path / "new")])
    assert exit_.value.code == 0
    said = capsys.readouterr()
    assert said.err == ""
    for method in METHODS:
        assert f"\n {method} " in said.out
    assert "losses shifted by +200" in said.out
    assert "…" not in said.out  # nothing is cut off at 80 columns
    assert (tmp_path / "new" / "landscape.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "</svg>" in (tmp_path / "new" / "landscape.svg").read_text(encoding="utf-8")
    saved = json.loads((tmp_path / "new" / "results.json").read_text(encoding="utf-8"))
    assert len(saved["rows"]) == 3 * len(METHODS)


def test_a_missing_matplotlib_is_named_with_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as exit_:
        main(["landscape", "--out", str(tmp_path)])
    assert exit_.value.code == 2
    assert "pip install 'gradaccord[report]'" in capsys.readouterr().err
