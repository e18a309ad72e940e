"""Special experiments by name, and what one that fails leaves."""

import pytest
from special_entries import TEXT

from gradaccord.reproduce.entry import read_entry
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import read_records
from gradaccord.reproduce.run import Folders, run_entry
from gradaccord.reproduce.special.pool import find_experiment


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="`kind` is 'landscapes': did you mean 'landscape'"):
        find_experiment("landscapes")


def test_a_failure_is_named_and_leaves_no_record(tmp_path):
    entry = read_entry("gradient-sharing-zz", TEXT.format(kind="fewshot", config="{data: glyphs}"))
    folders = Folders(None, tmp_path / "runs", tmp_path / "results")
    wrong = plan(entry, replace={"ways": 1})
    assert "`ways` is 1" in run_entry(entry, wrong, folders)["main, all, epochs, seed 0"]
    assert read_records(folders.results, entry.name) == []
