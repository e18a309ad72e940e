"""Special experiments by name, and what one that fails leaves."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from special_entries import TEXT

from gradaccord.reproduce.entry import read_entry
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import read_records
from gradaccord.reproduce.run import Folders, run_entry
from gradaccord.reproduce.special import fewshot
from gradaccord.reproduce.special.outcome import SpecialOutcome
from gradaccord.reproduce.special.pool import find_experiment, run_specials


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="`kind` is 'landscapes': did you mean 'landscape'"):
        find_experiment("landscapes")


def test_a_failure_is_named_and_leaves_no_record(tmp_path):
    entry = read_entry("gradient-sharing-zz", TEXT.format(kind="fewshot", config="{data: glyphs}"))
    folders = Folders(None, tmp_path / "runs", tmp_path / "results")
    wrong = plan(entry, replace={"ways": 1})
    assert "`ways` is 1" in run_entry(entry, wrong, folders)["main, all, epochs, seed 0"]
    assert read_records(folders.results, entry.name) == []


def test_a_run_that_diverges_leaves_the_others_their_records(tmp_path, monkeypatch):
    """`FloatingPointError` is no `RuntimeError`: it ended all runs, and their results were lost."""
    entry = read_entry("gradient-sharing-zz", TEXT.format(kind="fewshot", config="{data: glyphs}"))
    planned = plan(entry, seeds=3)

    class Here:
        def pool(self):
            return ThreadPoolExecutor(1)

    def one(settings, seed, *, data, folder):
        if seed == 1:
            raise FloatingPointError("no finite gradient")
        return SpecialOutcome(test={"glyphs": {"accuracy": 50.0 + seed}})

    monkeypatch.setattr(fewshot, "fewshot", one)
    results, shown = tmp_path / "results", []
    show, say = (lambda progress: shown.append(progress.share)), (lambda sentence: None)
    failed = run_specials("fewshot", planned, None, tmp_path, results, Here(), show, say)
    assert failed == {"main, all, epochs, seed 1": "no finite gradient"}
    assert [record.seed for record in read_records(results, entry.name)] == [0, 2]
    assert shown[-1] == 1.0
