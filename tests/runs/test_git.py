"""The commit of a folder is read without running anything that the folder's own git settings name."""

import subprocess

import pytest

from gradaccord.runs.git import commit

AS_SOMEONE = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")


def git(folder, *command):
    done = subprocess.run(
        ["git", *AS_SOMEONE, *command], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    folder = tmp_path / "downloaded"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "text.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    monkeypatch.chdir(folder)
    return folder


def test_the_commit_and_a_plus_where_files_differ(repository):
    head = git(repository, "rev-parse", "HEAD")
    assert commit() == head
    (repository / "text.txt").write_text("two\n")
    assert commit() == f"{head}+"


def test_no_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert commit() is None


@pytest.mark.parametrize(
    "setting",
    [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "diff.external",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.process",
    ],
)
def test_nothing_that_a_downloaded_folder_names_is_run(setting, repository, tmp_path):
    head, ran = git(repository, "rev-parse", "HEAD"), tmp_path / "ran"
    (repository / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (repository / "text.txt").write_text("two\n")
    script = repository / "script.sh"
    script.write_text(f"#!/bin/sh\ntouch '{ran}'\nexec cat\n")
    script.chmod(0o755)
    git(repository, "config", setting, str(script))
    found = commit()
    assert not ran.exists()
    assert found == f"{head}?"  # whether files differ cannot be told in safety


def test_no_hook_is_run(repository, tmp_path):
    head, ran = git(repository, "rev-parse", "HEAD"), tmp_path / "ran"
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    hook.chmod(0o755)
    (repository / "text.txt").touch()  # so that git would write its index anew
    found = commit()
    assert not ran.exists()
    assert found == head


def test_settings_in_an_included_file_count(repository, tmp_path):
    head, ran = git(repository, "rev-parse", "HEAD"), tmp_path / "ran"
    (repository / ".git" / "more").write_text(f"[core]\nfsmonitor = \"touch '{ran}'; false\"\n")
    git(repository, "config", "include.path", "more")
    found = commit()
    assert not ran.exists()
    assert found == f"{head}?"
