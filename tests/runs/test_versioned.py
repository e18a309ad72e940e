"""A JSON file with a version: written whole, read again, refused in one sentence."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from gradaccord.runs.versioned import Versioned


class Costs(Versioned):
    FILE: ClassVar[str] = "costs.json"
    VERSION: ClassVar[int] = 2
    REMEDY: ClassVar[str] = "measure again"

    seconds: float
    steps: dict[str, int] = {}  # noqa: RUF012
    note: str = "none"


def test_a_file_is_read_as_it_was_written_and_keeps_its_layout(tmp_path):
    assert not Costs.exists(tmp_path)
    Costs(seconds=1.5).write(tmp_path)
    assert Costs.exists(tmp_path)
    assert json.loads((tmp_path / "costs.json").read_text()) == {"version": 2, "seconds": 1.5}
    assert Costs.read(tmp_path) == Costs(seconds=1.5)
    Costs(seconds=1.5).write_file(tmp_path / "own.json")
    whole = {"version": 2, "seconds": 1.5, "steps": {}, "note": "none"}
    assert json.loads((tmp_path / "own.json").read_text()) == whole
    assert Costs.read_file(tmp_path / "own.json") == Costs(seconds=1.5)


def test_without_a_version_it_is_the_first(tmp_path):
    (tmp_path / "costs.json").write_text('{"seconds": 2}')
    assert Costs.read(tmp_path).seconds == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"version": 3, "seconds": 1}, "has version 3, .* reads versions up to 2: upgrade gradaccord"),
        ({"version": "2", "seconds": 1}, "its version is '2'"),
        ({"version": 2}, r"is damaged \(`seconds`: Field required\): measure again"),
        ({"seconds": 1, "steps": {"a": "x"}}, "`steps.a`: Input should be a valid integer"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path, content, said):
    (tmp_path / "costs.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=said) as raised:
        Costs.read(tmp_path)
    assert "\n" not in str(raised.value)
    assert str(tmp_path / "costs.json") in str(raised.value)
