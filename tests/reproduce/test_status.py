"""Where an entry stands, computed from records."""

import pytest
from reproduce_toy import made_record, save_made

from gradaccord.reproduce.entry import all_entries
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.status import command, status_of

SPREAD = (0.0, 0.2, -0.1)  # over seeds, of PCGrad's gain


def saved(trio, results, gain, spread=1.0, **more):
    for planned in plan(trio):
        ours = (gain + spread * SPREAD[planned.seed]) * (planned.arm == "pcgrad")
        made_record(planned, 60 + planned.seed + ours, **more).save(planned.path(results).parent)


@pytest.mark.parametrize(
    ("gain", "spread", "word", "verdict"),
    [
        (5, 1, "reproduced", "holds"),
        (0.9, 0.5, "reproduced", "holds in part"),  # less than the smallest effect worth having
        (0.0, 1, "not reproduced", "does not hold here"),
        (-5, 1, "not reproduced", "does not hold here"),
        (1, 20, "measured at small scale", "not testable here"),
    ],
)
def test_the_primary_test_decides(trio, tmp_path, gain, spread, word, verdict):
    saved(trio, tmp_path, gain, spread)
    found = status_of(trio, tmp_path)
    assert (found.word, found.verdict, found.text) == (word, verdict, word)
    assert "seen four times in five" in found.result


def test_nothing_is_decided_where_plain_training_guesses(trio, tmp_path):
    saved(trio, tmp_path, 5, chance={"film": {"majority": 60.0}})
    found = status_of(trio, tmp_path)
    assert (found.word, found.verdict) == ("measured at small scale", "not testable here")
    assert "does not learn film (61.0 ± 0.6, guessing 60.0)" in found.result


def test_unfinished_and_missing_runs_are_counted(trio, tmp_path):
    assert status_of(trio, tmp_path).text == "not run"
    save_made(trio, tmp_path, lambda planned: 50.0, seeds=2)
    found = status_of(trio, tmp_path)
    assert found.text == "measured at small scale (20 of 30 runs)"
    assert found.verdict == "not run"
    assert "Runs are missing (3 seeds are planned)" in found.result


def test_without_a_primary_test_controls_are_counted(trio, tmp_path):
    saved(trio, tmp_path, 5)
    small = trio.small.model_copy(update={"primary": None})
    found = status_of(trio.model_copy(update={"small": small}), tmp_path)
    assert (found.word, found.verdict) == ("measured at small scale", "holds")
    assert found.result.startswith("Exploratory: of 3 differences 3 clearly better, 0 clearly worse")


def test_of_entries_that_are_not_run_here(tmp_path):
    entries = all_entries()
    absent = entries["minbert-table-1"].model_copy(update={"small": None, "recipe_only": "a file"})
    found = status_of(absent, tmp_path)
    assert (found.word, found.verdict, found.result) == (
        "recipe only", "not testable here", "Missing: a file.",
    )  # fmt: skip
    assert status_of(entries["dotprod-table-3"], tmp_path).word == "published numbers only"
    assert command(entries["controls-valley"]) == "gradaccord reproduce controls-valley --small"
    assert command(entries["minbert-table-2"]).endswith("minbert-table-2 --small --data DIR")
