"""A task's weight scales its loss before the method sees it; what is logged is the loss itself."""

import pytest
import torch
from train_toy import said, same, weights, without_dropout

from gradaccord.core.report import StepReport
from gradaccord.methods.registry import find_method
from gradaccord.runs.log import read_log
from gradaccord.train.task_weights import unweighted, weighted


@pytest.fixture(scope="module")
def still(checkpoint, tmp_path_factory):
    """A checkpoint whose losses are the same in training."""
    return str(without_dropout(checkpoint, tmp_path_factory.mktemp("still") / "model"))


def with_weights(content, **given):
    return {name: {**task, "weight": given.get(name, 1.0)} for name, task in content["tasks"].items()}


def losses(folder):
    return [r["loss"] for r in read_log(folder / "log.jsonl") if r["event"] == "step"]


def test_a_weighted_sum_is_the_sum_of_weighted_gradients(
    configured, content, run, tmp_path, still, monkeypatch
):
    """One plain step of SGD: theta' = theta - lr * sum_t w_t g_t, g_t from runs of one task each."""
    options = {"steps": 1, "optimizer": "sgd", "lr": 0.5, "clip": None, "schedule": "constant",
               "warmup": 0.0, "save_every": 1}  # fmt: skip
    given = {"film": 2.0, "bank": 0.25, "long": 3.0}

    def moved(folder, tasks):
        config = configured(tasks=tasks, train=options, model=still)
        run(config, folder)
        return weights(tmp_path / folder)

    whole = moved("whole", with_weights(content, **given))
    plain = moved("plain", content["tasks"])
    # The step of each weight alone, by differences: linear in the weights.
    name = "trunk.model.encoder.layer.0.attention.self.query.weight"
    steps = {}
    for task in given:
        doubled = moved(task, with_weights(content, **{task: 2.0}))
        steps[task] = (doubled[name] - plain[name]).double()
    expected = plain[name].double() + sum((w - 1) * steps[t] for t, w in given.items())
    assert torch.allclose(whole[name].double(), expected, atol=1e-7, rtol=1e-4)
    assert not torch.equal(whole[name], plain[name])
    assert losses(tmp_path / "whole")[0] == pytest.approx(losses(tmp_path / "plain")[0], rel=1e-6)


METHODS = {
    "pcgrad": {}, "gradnorm": {}, "dotprod": {"mode": "difference"}, "sam": {},
    "sequential_reptile": {"inner_steps": 3}, "fomaml": {"inner_steps": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_every_family_sees_the_scaled_loss_and_logs_the_plain_one(
    name, configured, content, run, tmp_path, still
):
    method = {"name": name, **METHODS[name]}
    train = {"steps": 3, "optimizer": "sgd", "lr": 1e-2, "save_every": 1}
    given = with_weights(content, film=8.0, bank=0.125, long=4.0)

    def one(folder, tasks):
        run(configured(method=method, tasks=tasks, model=still, train=train), folder)
        return losses(tmp_path / folder)

    plain, heavy = one("plain", content["tasks"]), one("heavy", given)
    # Until the first update the losses are those of the same weights.
    assert heavy[0] == pytest.approx(plain[0], rel=1e-6)
    assert not same(weights(tmp_path / "plain"), weights(tmp_path / "heavy"))
    if find_method(name).feed_with(METHODS[name]) == "all":
        assert heavy[-1] != pytest.approx(plain[-1], rel=1e-6)


@pytest.mark.parametrize("regularizer", ["smart", "swep"])
def test_a_term_of_a_regulariser_is_scaled_with_its_loss(
    regularizer, configured, content, run, tmp_path
):
    """All weights doubled and the rate halved is the same run of SGD, term and all."""
    options = {"steps": 3, "optimizer": "sgd", "clip": None, "save_every": 1}
    tasks = with_weights(content, film=2.0, bank=2.0, long=2.0)
    run(configured(regularize=regularizer, train={**options, "lr": 0.1}), "plain")
    run(configured(regularize=regularizer, tasks=tasks, train={**options, "lr": 0.05}), "twice")
    for first, second in zip(losses(tmp_path / "plain"), losses(tmp_path / "twice"), strict=True):
        assert second == pytest.approx(first, rel=1e-5)
    plain, twice = weights(tmp_path / "plain"), weights(tmp_path / "twice")
    assert all(torch.allclose(plain[k], twice[k], atol=1e-6) for k in plain)
    extras = [
        r.get("extras") for r in read_log(tmp_path / "twice" / "log.jsonl") if r["event"] == "step"
    ]
    assert regularizer == "swep" or all(extras)  # what SMART measures is still reported


def test_a_weighted_run_resumes_bit_equal_and_says_its_weights(
    configured, content, run, interrupted, tmp_path, capsys, written
):
    tasks = with_weights(content, film=3.0, long=0.1)
    config = configured(method="pcgrad", tasks=tasks)
    said_lines = []
    results = run(config, "whole", say=said_lines.append)
    assert results.weights == {"film": 3.0, "long": 0.1}
    assert any(line.startswith("film: classification") and "weight 3." in line for line in said_lines)
    interrupted(config, "broken", after=7)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))
    shown = said(
        capsys, "train", written(tasks=tasks, train={"steps": 1}), "--out", tmp_path / "cli", code=0
    )
    assert "film 3, long 0.1; the others 1" in shown


def test_a_task_alone_has_no_weight(configured, content, run):
    tasks = with_weights(content, film=3.0)
    results = run(configured(method="stl", tasks=tasks, train={"steps": 1}))
    assert results.weights == {}


@pytest.mark.parametrize("wrong", ["0", "-1", ".inf", ".nan", "heavy"])
def test_a_wrong_weight_is_one_sentence(wrong, written, capsys):
    sentence = said(capsys, "validate", written(), f"tasks.film.weight={wrong}")
    assert "`tasks.film.weight`" in sentence


def test_weights_are_for_training(written, capsys):
    overrides = ["tasks.bank.evaluate_only=true", "tasks.bank.weight=2"]
    assert "`weight` is for training" in said(capsys, "validate", written(), *overrides)


def test_batches_of_one_task_are_unweighted_by_its_weight():
    two = torch.ones(2, dtype=torch.float64)
    report = StepReport(("a#1", "a#2"), 4 * two, torch.eye(2), two, ("model",), 0.0)
    assert unweighted(report, {"a": 4.0, "b": 1.0}).losses.tolist() == [1.0, 1.0]
    assert unweighted(report, {"a": 1.0}) is report

    def plain():
        return torch.tensor(3.0), 5

    assert weighted(plain, 1.0) is plain
    assert weighted(plain, 2.0)() == (torch.tensor(6.0), 5)
