"""What is noted to run something again."""

from gradaccord.runs.about import about


def test_command_versions_and_commit():
    noted = about(["gradaccord", "train"])
    assert noted["command"] == ["gradaccord", "train"]
    assert {"torch", "gradaccord"} <= set(noted["versions"])


def test_without_git(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert about()["git"] is None
