"""Spurious cues: interpolation at equal loss, and what is learned without strong cues."""

import math

import pytest
from reproduce_toy import made_record

from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import RunRecord
from gradaccord.reproduce.special.spurious_cues import accuracy_at, spurious_cues


def test_accuracy_is_interpolated_where_the_loss_first_falls_to_a_value():
    assert accuracy_at(0.5, [0.7, 0.6, 0.4, 0.55], [50, 60, 80, 90]) == pytest.approx(70)
    assert accuracy_at(0.9, [0.7], [50.0]) == 50.0
    assert math.isnan(accuracy_at(0.5, [0.7], [50.0]))


def test_a_strong_cue_of_its_own_costs_accuracy_in_a_new_domain(tmp_path):
    few = {"steps": 60, "lr": [0.5], "losses": [0.6], "domains": 4, "method": "pcgrad"}
    with_own = spurious_cues(few, 0, data=None, folder=tmp_path)
    without = spurious_cues({**few, "own": 0.0, "common": 1.0}, 0, data=None, folder=tmp_path)
    assert without.test["loss 0.6"]["accuracy"] > with_own.test["loss 0.6"]["accuracy"] + 5


def test_the_rate_is_chosen_among_runs_that_reach_the_losses(tmp_path):
    few = {"steps": 40, "losses": [0.6, 0.1], "domains": 4}
    slow, fast = (spurious_cues({**few, "lr": [r]}, 0, data=None, folder=tmp_path) for r in (1e-3, 2.0))
    both = spurious_cues({**few, "lr": [1e-3, 2.0]}, 0, data=None, folder=tmp_path)
    assert both.probes["lr"] == 2.0
    assert both.test["loss 0.6"] == fast.test["loss 0.6"]
    assert both.gradients == slow.gradients + fast.gradients == 2 * 40 * 4
    assert math.isnan(slow.test["loss 0.6"]["accuracy"])  # recorded, not an error
    assert math.isnan(both.test["loss 0.1"]["accuracy"])


@pytest.mark.parametrize("name", ["dotprod", "sequential_reptile", "multitask_reptile"])
def test_methods_are_fed_as_they_ask(name, tmp_path):
    options = {} if name == "dotprod" else {"inner_steps": 3}
    few = {"steps": 12, "losses": [0.6], "domains": 4, "lr": [0.5], "model": "mlp"}
    found = spurious_cues({**few, "method": {"name": name, **options}}, 0, data=None, folder=tmp_path)
    assert found.steps == (24 if name == "dotprod" else 48)
    assert found.curve[-1].values["train_loss"] < found.curve[0].values["train_loss"]


def test_a_loss_that_was_not_reached_survives_in_the_record(trio, tmp_path):
    planned = plan(trio, seeds=1)[0]
    made = made_record(planned, 50.0, test={"film": {"accuracy": math.nan}})
    path = made.save(tmp_path)
    assert "NaN" not in path.read_text()
    read = RunRecord.read_file(path)
    assert math.isnan(read.value("film"))
    assert math.isnan(read.value())
