"""Records: what is kept of a run, and how a value is read."""

import json
import math

import pytest
from made_results import made_results
from reproduce_toy import made_record

from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.records import (
    POINTS,
    RunRecord,
    by_seed,
    from_training,
    read_records,
    thinned,
)
from gradaccord.runs.files import LOG
from gradaccord.runs.results import Results, TaskCosine


@pytest.fixture
def planned(trio):
    return plan(trio, seeds=1)[0]


def test_a_record_comes_back_as_it_was_written(planned, tmp_path):
    made = made_record(planned, 62.5, train_loss=math.nan)
    path = made.save(planned.path(tmp_path).parent)
    assert path == planned.path(tmp_path)
    assert path.name == "one.plain.epochs.s0.json"
    assert json.loads(path.read_text())["train_loss"] is None
    (found,) = read_records(tmp_path, planned.entry)
    assert found.settings == made.settings
    assert found.value() == 62.5
    assert math.isnan(found.train_loss)
    path.write_text(path.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(ValueError, match="upgrade gradaccord"):
        read_records(tmp_path, planned.entry)


def test_values_are_of_test_where_every_trained_task_has_it(planned):
    scores = {"a": {"f1": 40.0, "em": 30.0}, "b": {"f1": 60.0}}
    names = {"metrics": {"a": "f1", "b": "f1"}, "trained": ["a"]}
    record = made_record(planned, 0.0, dev=scores, test={"b": {"f1": 1.0}}, **names)
    assert (record.split, record.value(), record.value("b"), record.value("a.em")) == (
        "dev", 40.0, 60.0, 30.0,
    )  # fmt: skip
    record = made_record(planned, 0.0, dev=scores, test={"a": {"f1": 7.0}}, **names)
    assert (record.split, record.value()) == ("test", 7.0)
    assert by_seed([record]) == {0: 7.0}


def test_the_zero_shot_average_is_of_tasks_that_were_not_trained(planned):
    test = {"en": {"accuracy": 60.0}, "de": {"accuracy": 50.0}, "fr": {"accuracy": 54.0}}
    names = {"metrics": dict.fromkeys(test, "accuracy"), "trained": ["en"]}
    record = made_record(planned, 0.0, dev=test, test=test, **names)
    assert (record.unseen, record.value("zero-shot average")) == (("de", "fr"), 52.0)
    alone = record.model_copy(update={"trained": list(test)})
    assert math.isnan(alone.value("zero-shot average"))


def test_of_a_training_run_curves_probes_and_counts_are_kept_and_no_text(planned, tmp_path):
    results = made_results({"film": 55.0}, masked_lm={"wiki": 2.5})
    errors = {
        "split": "dev", "examples": 10, "wrong": 4,
        "worst": [{"id": "1", "text": "secret", "gold": 1, "predicted": 0}],
        "confusion": {"labels": ["a", "b"], "counts": [[3, 1], [3, 3]]},
    }  # fmt: skip
    many = {"labels": [str(i) for i in range(21)], "counts": [[1] * 21] * 21}  # too many to be read
    both = {"film": errors, "birds": errors | {"confusion": many}}
    results = Results.model_validate(results.model_dump() | {"errors": both})
    lines = [
        {"event": "step", "step": i, "dot": float(i), "cosine": 0.5, "loss": {"a": 1.0, "b": 3.0}}
        for i in range(1, 201)
    ]
    (tmp_path / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))
    record = RunRecord(**planned.key, **from_training(results, tmp_path))
    assert "secret" not in record.model_dump_json()
    assert record.errors["film"].confusion.counts == ((3, 1), (3, 3))
    assert record.errors["birds"].confusion is None
    assert record.curve[0].values["masked_lm.wiki"] == 2.5
    assert record.alignment["dot_steps"][-1] == 200
    assert record.alignment["dot"][-1] == pytest.approx(150.5)  # the mean of the last hundred
    assert record.alignment["loss"][-1] == 2.0
    assert len(record.alignment["dot"]) == POINTS
    assert record.cost.gradients == 10


def test_thinned_keeps_the_last():
    assert thinned(list(range(1000)), 4) == [249, 499, 749, 999]
    assert thinned([1, 2], 4) == [1, 2]


def test_a_record_keeps_what_no_skill_scores_on_its_split(tmp_path):
    known = {"a": {"chance": 50.0, "majority": 61.0}}
    made = from_training(made_results({"a": 70.0, "b": 60.0}, references=known), tmp_path)
    assert made["chance"] == known
    made = from_training(made_results({"a": 70.0}, test={"a": 71.0}, references=known), tmp_path)
    assert made["chance"] == {}  # those are of dev


@pytest.mark.parametrize("value", [0.25, math.nan])
def test_the_cosines_of_pairs_are_kept_unless_one_is_missing(value, tmp_path):
    results = made_results({"a": 70.0, "b": 60.0})
    matrix = {"tasks": ["a", "b"], "matrix": [[1.0, value], [value, 1.0]], "mean": value}
    results.evaluations[-1].task_cosine = TaskCosine(**matrix)
    kept = from_training(results, tmp_path)["cosines"]
    assert (kept is None) == math.isnan(value)
    assert kept is None or kept.matrix == matrix["matrix"]


def test_a_probe_of_the_curve_alone_is_that_of_its_last_point(planned):
    """Masked-LM losses are measured at evaluations, and not of the best weights again."""
    points = [
        {
            "step": i,
            "gradients": i,
            "seconds": i,
            "values": {"masked_lm.fr": 1.0 + i, "masked_lm.tr": 3.0},
        }
        for i in (0, 1)
    ]
    record = made_record(planned, 0.0, curve=points, probes={"cosine": 0.5})
    assert record.value("masked_lm.*") == 2.5
    assert record.value("cosine") == 0.5
    assert math.isnan(record.value("distance"))
