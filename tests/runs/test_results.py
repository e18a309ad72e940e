"""Results are typed, keep their file's layout, and files of 0.1 load."""

import json
import math

import pytest

from gradaccord.runs.results import Results

OF_0_1 = {
    "finished": "2026-11-01T12:00:00+0000",
    "method": {"name": "pcgrad", "reduction": "mean"},
    "regularize": [],
    "seed": 3,
    "metrics": {"film": "accuracy", "long": "pearson"},
    "kinds": {"film": "classification", "long": "regression"},
    "trained": ["film", "long"],
    "dev": {"film": {"accuracy": 90.0, "f1": 80.0}, "long": {"pearson": 70.0}},
    "test": {"film": {"accuracy": 85.0, "f1": 75.0}},
    "best_step": 12,
    "last": {
        "train_loss": {"film": 0.5, "long": 0.25},
        "task_cosine": {"tasks": ["film", "long"], "matrix": [[1.0, 0.1], [0.1, 1.0]], "mean": 0.1,
                        "losses": {"film": 0.5, "long": 0.25}},
    },
    "evaluations": [
        {"event": "evaluation", "step": 12, "gradients": 36.0, "seconds": 1.5,
         "evaluation_seconds": 0.2, "scores": {"film": {"accuracy": 90.0}}, "average": 80.0,
         "train_loss": {"film": 0.5},
         "distance": {"total": 0.1, "layers": {"trunk": 0.1}}},
    ],
    "errors": {
        "film": {"split": "dev", "examples": 10, "wrong": 1,
                 "worst": [{"id": "1", "text": "a", "gold": "no", "predicted": "yes", "by": None}],
                 "confusion": {"labels": ["no", "yes"], "counts": [[5, 0], [1, 4]]}, "histogram": None},
    },
    "notes": {"film": {"train": {"truncated": 2}}},
    "overlaps": [],
    "cost": {"seconds": 1.5, "cpu_seconds": None, "steps": 12, "gradients": 36.0, "memory_mb": 300.0},
}  # fmt: skip


def written(folder, content):
    (folder / "results.json").write_text(json.dumps(content))
    return folder


def test_a_file_of_0_1_loads_and_keeps_its_layout(tmp_path):
    results = Results.read(written(tmp_path, OF_0_1))
    assert json.loads(json.dumps(results.to_json())) == {"version": 1, **OF_0_1}
    results.write(tmp_path)
    assert Results.read(tmp_path) == results


def test_what_comparisons_and_reports_ask(tmp_path):
    results = Results.read(written(tmp_path, OF_0_1))
    assert (results.method_name, results.method_options) == ("pcgrad", {"reduction": "mean"})
    assert results.split == "dev"  # one task has no test split
    assert results.main_scores("dev") == {"film": 90.0, "long": 70.0}
    assert results.main_scores("test") == {"film": 85.0}
    assert results.average("dev") == 80.0
    assert results.train_loss == 0.375
    assert results.last.distance is None
    assert results.errors["film"].confusion.counts[1] == (1, 4)
    assert math.isnan(results.model_copy(update={"last": type(results.last)()}).train_loss)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is damaged"),
        ("[]", "holds no JSON object"),
        (json.dumps({**OF_0_1, "version": 99}), "has version 99"),
        ("{}", "damaged"),
        (json.dumps({**OF_0_1, "method": {}}), "`method.name`: Field required"),
        (json.dumps({**OF_0_1, "trained": []}), "`trained` names no task"),
        (json.dumps({**OF_0_1, "metrics": {}}), "has no metric"),
        (
            json.dumps({**OF_0_1, "metrics": dict.fromkeys(OF_0_1["metrics"], "x")}),
            "has no score by 'x'",
        ),
        (json.dumps({**OF_0_1, "cost": {}}), r"damaged \(`cost.seconds`: Field required\)"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path, content, said):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ValueError, match=said) as raised:
        Results.read(tmp_path)
    assert "\n" not in str(raised.value)


def test_processor_seconds_are_the_sum_of_their_parts_or_unknown():
    parts = {"training_seconds": 4.0, "evaluation_seconds": 2.0, "probe_seconds": 1.0}
    cost = Results.model_validate({**OF_0_1, "cost": {**OF_0_1["cost"], **parts}}).cost
    assert cost.processor == 7.0
    assert Results.model_validate(OF_0_1).cost.processor is None


def test_averages_of_tasks_never_trained_on_are_apart():
    own = {"dev": {**OF_0_1["dev"], "far": {"accuracy": 40.0}, "near": {"accuracy": 60.0}}}
    metrics = {**OF_0_1["metrics"], "far": "accuracy", "near": "accuracy"}
    results = Results.model_validate({**OF_0_1, **own, "metrics": metrics})
    assert (results.average("dev"), results.unseen_average("dev")) == (80.0, 50.0)
    assert math.isnan(Results.model_validate(OF_0_1).unseen_average("dev"))


def test_a_reference_is_of_the_split_that_is_asked_for():
    test, dev = (
        {"split": s, "chance": 50.0, "majority": m} for s, m in (("test", 55.0), ("dev", 60.0))
    )
    known = {"references": {"film": test}, "dev_references": {"film": dev}}
    results = Results.model_validate({**OF_0_1, **known})
    assert results.reference("film", "test").majority == 55.0
    assert results.reference("film", "dev").majority == 60.0
    assert results.reference("long", "dev") is None
    assert Results.model_validate(OF_0_1).reference("film", "dev") is None
