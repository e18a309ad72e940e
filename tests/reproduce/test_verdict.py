"""Where an entry stands, computed from records."""

import pytest
from reproduce_toy import made_record, save_made

from gradaccord.reproduce.entry import Reused, all_entries
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.verdict import command, status_of

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
    assert "detected four times in five" in found.result


def test_nothing_is_decided_where_plain_training_guesses(trio, tmp_path):
    saved(trio, tmp_path, 5, chance={"film": {"majority": 60.0}})
    found = status_of(trio, tmp_path)
    assert (found.word, found.verdict) == ("measured at small scale", "not testable here")
    assert "does not learn film (61.0 ± 0.6, guessing 60.0)" in found.result


def test_scores_that_are_those_of_guessing_are_not_learned(trio, tmp_path):
    for planned in plan(trio):
        record = made_record(planned, 60.0, chance={"film": {"majority": 60.0}})
        record.save(planned.path(tmp_path).parent)
    assert "does not learn film (60.0 ± 0.0, guessing 60.0)" in status_of(trio, tmp_path).result


def test_arms_that_end_at_other_training_losses_are_told(trio, tmp_path):
    def ends(gain, higher):
        for planned in plan(trio):
            is_arm = planned.arm == "pcgrad"
            score = 60 + planned.seed + (gain + SPREAD[planned.seed]) * is_arm
            loss = 0.5 + (higher + 0.01 * higher * planned.seed) * is_arm
            made_record(planned, score, train_loss=loss).save(planned.path(tmp_path).parent)
        return status_of(trio, tmp_path)

    told = "Their last training losses differ clearly: 0.803 (pcgrad) and 0.500 (plain)."
    assert told in ends(5, 0.3).result
    assert ends(5, 0.3).verdict == "holds"  # in spite of it
    assert "training loss" not in ends(5, 0.004).result  # clearly different, by less than 1 %
    worse = ends(-5, 0.3)
    assert "pcgrad has learned its training data less, which alone can explain it." in worse.result
    assert (worse.word, worse.verdict) == ("measured at small scale", "not testable here")
    assert ends(-0.1, 0.3).verdict == "not testable here"  # no milder for a greater loss
    for higher in (0.03, -0.3):  # hardly less, and more
        assert ends(-5, higher).verdict == "does not hold here"
    saved(trio, tmp_path, 5)
    assert "training loss" not in status_of(trio, tmp_path).result


def test_the_control_stands_in_for_plain_training_that_has_not_run(tmp_path):
    entry = all_entries()["sequential-reptile-table-9"]
    primary = entry.small.primary
    assert primary.against != entry.small.baseline
    for planned in plan(entry):
        if planned.arm in (primary.arm, primary.against):
            chance = {"film": {"majority": 90.0}}
            made_record(planned, 60.0 + planned.seed, chance=chance).save(planned.path(tmp_path).parent)
    assert f"{primary.against} does not learn film (62.0" in status_of(entry, tmp_path).result


def test_unfinished_and_missing_runs_are_counted(trio, tmp_path):
    assert status_of(trio, tmp_path).text == "not run"
    save_made(trio, tmp_path, lambda planned: 50.0, seeds=2)
    found = status_of(trio, tmp_path)
    assert found.text == "measured at small scale (20 of 30 runs)"
    assert found.verdict == "not run"
    assert "Runs are missing or without a score (3 seeds are planned)" in found.result


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


@pytest.mark.parametrize(
    ("half_way", "end", "noise", "verdict"),
    [
        (0.1, 0.1, 0.001, "holds"),
        (0.3, 0.1, 0.001, "does not hold here"),  # the gain is that of training less
        (0.3, 0.1, 0.08, "not testable here"),  # and so it may be here
        (0.3, 0.5, 0.001, "does not hold here"),  # less training does not explain a lower cosine
    ],
)
def test_what_less_training_improves_is_compared_at_equal_loss(
    trio, tmp_path, half_way, end, noise, verdict
):
    """The arm ends with a cosine of 0.3 where its control, half way and at the end, has these."""
    primary = trio.small.primary.model_copy(
        update={"metric": "cosine", "variant": "one", "smallest_effect": 0.05}
    )
    small = trio.small.model_copy(update={"primary": primary})
    for planned in plan(trio, budget="epochs", variants=["one"]):
        is_arm, jitter = planned.arm == "pcgrad", noise * SPREAD[planned.seed]
        control = [(3.0, 10.0, 0.0), (2.0, 30.0, half_way), (1.0, 60.0, end + jitter)]
        points = [(3.0, 10.0, 0.2), (2.5, 20.0, 0.2), (2.0, 30.0, 0.3 + 2 * jitter)]
        curve = [
            {
                "step": i, "gradients": 10**9 * i, "seconds": i,
                "values": {"train_loss": loss, "average": score, "cosine": cosine},
            }
            for i, (loss, score, cosine) in enumerate(points if is_arm else control)
        ]  # fmt: skip
        loss = curve[-1]["values"]["train_loss"] + 0.001 * planned.seed * is_arm
        made = made_record(planned, 50.0 + planned.seed, curve=curve, train_loss=loss)
        made.save(planned.path(tmp_path).parent)
    assert status_of(trio.model_copy(update={"small": small}), tmp_path).verdict == verdict


def test_tests_of_another_entry_say_nothing_of_a_figure_s_claim(trio, tmp_path):
    saved(trio, tmp_path, 5)
    small = trio.small.model_copy(update={"primary": None})
    reused = Reused(entry=trio.name)
    found = status_of(trio.model_copy(update={"small": small, "records_of": reused}), tmp_path)
    assert (found.word, found.verdict) == ("measured at small scale", "no test planned")


def test_what_is_tested_is_told_where_the_claim_is_wider(trio, tmp_path):
    saved(trio, tmp_path, 5)
    primary = trio.small.primary.model_copy(update={"asks": "one step of ten"})
    small = trio.small.model_copy(update={"primary": primary})
    found = status_of(trio.model_copy(update={"small": small}), tmp_path)
    assert found.result.startswith("Tested: one step of ten. pcgrad")
