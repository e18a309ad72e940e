"""A figure without matplotlib is one sentence; with it, there is no global state."""

from __future__ import annotations

import sys

import pytest

from gradaccord.probe.figure import new_figure, require_matplotlib


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for call in (require_matplotlib, lambda: new_figure(3, 2)):
        with pytest.raises(ModuleNotFoundError, match='pip install "gradaccord\\[report\\]"') as raised:
            call()
        assert raised.value.name == "matplotlib"


def test_a_figure_is_as_large_as_asked_and_pyplot_does_not_know_it() -> None:
    pytest.importorskip("matplotlib")
    figure = new_figure(3.5, 2)
    assert figure.get_size_inches().tolist() == [3.5, 2]
    assert not figure.axes
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()
