"""What is noted to run something again."""

import pytest

from gradaccord.runs.about import About, about, read_about
from gradaccord.runs.files import ABOUT, write_json


def test_command_versions_and_commit():
    noted = about(["gradaccord", "train"])
    assert noted.command == ["gradaccord", "train"]
    assert {"torch", "gradaccord"} <= set(noted.versions)


def test_without_git(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert about().git is None


def test_what_is_there_is_read_and_another_shape_is_refused(tmp_path):
    assert read_about(tmp_path) == About()
    about(["gradaccord", "train"]).write(tmp_path)
    assert read_about(tmp_path).command == ["gradaccord", "train"]
    for content in ([], None, 7, {"command": 7}, {"versions": []}, {"git": {}}):
        write_json(tmp_path / ABOUT, content)
        with pytest.raises(
            ValueError, match=r"about.json is damaged \(.*\): repeat the command"
        ) as raised:
            read_about(tmp_path)
        assert "\n" not in str(raised.value)
