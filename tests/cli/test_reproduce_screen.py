"""What `reproduce` prints: the list of entries, and numbers of papers."""

from __future__ import annotations

import pytest
from train_toy import shown_by

from gradaccord.reproduce.entry import PAPERS, all_entries


@pytest.mark.parametrize("arguments", [(), ("--list",)])
def test_the_list_has_paper_title_claim_status_and_command_of_every_entry(capsys, tmp_path, arguments):
    shown = shown_by(capsys, "reproduce", *arguments, "--results", tmp_path)
    words = " ".join(shown.split())
    assert all(len(line) <= 80 for line in shown.splitlines())
    for entry in all_entries().values():
        assert f"{entry.name}: {entry.title} status: " in words
        assert " ".join(f"claim: {entry.claim}".split()) in words
        assert f"gradaccord reproduce {entry.name}" in words
        assert PAPERS[entry.paper] in words
    assert "status: published numbers only" in words
    assert "status: not run" in words


def test_numbers_of_a_paper_are_printed(capsys):
    assert "published overhead %" in shown_by(capsys, "reproduce", "dotprod-table-3", "--dry-run")
    assert "its numbers are not available here" in shown_by(capsys, "reproduce", "dotprod-table-11")
