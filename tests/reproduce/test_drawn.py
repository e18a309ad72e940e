"""A figure of the pages is written whole, and without the name of the software that drew it."""

import pytest

from gradaccord.probe.figure import new_figure
from gradaccord.reproduce.drawn import Drawn


def test_a_figure_is_the_same_file_every_time(tmp_path):
    pytest.importorskip("matplotlib")
    drawn = Drawn("results-x.png", "What it shows.", lambda: new_figure(1, 1), "x")
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    drawn.save(first)
    drawn.save(second)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(b"\x89PNG")
    assert b"Matplotlib" not in first.read_bytes()
    assert drawn.markdown == "![What it shows.](figures/results-x.png)"
