"""A warm start trains its task first; budgets are what they say."""

from train_toy import same, weights

from gradaccord.core import sketched_gradients
from gradaccord.runs.log import read_log


def test_a_warm_start_trains_its_task_alone_first(configured, run, tmp_path):
    run(configured(train={"steps": 4, "warm_start": {"task": "film", "epochs": 1}}))
    records = [r for r in read_log(tmp_path / "run" / "log.jsonl") if r["event"] == "step"]
    warm = [r for r in records if r["phase"] == "warm start"]
    assert len(warm) == 8  # 64 examples in batches of 8
    assert all(list(r["loss"]) == ["film"] for r in warm)
    assert all(len(r["loss"]) == 3 for r in records[8:])


def test_a_warm_start_resumes_bit_equal(configured, run, tmp_path, interrupted):
    config = configured(train={"steps": 6, "warm_start": {"task": "film", "epochs": 1}})
    run(config, "whole")
    interrupted(config, "broken", after=5)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))


def test_sketches_of_gradients_resume_bit_equal(configured, run, tmp_path, interrupted, monkeypatch):
    monkeypatch.setattr(sketched_gradients, "SMALL", 16)
    config = configured(train={"steps": 6}, method={"name": "gradvac", "memory": "sketch"})
    assert run(config, "whole").cost.gradients == 36  # three tasks, six steps, two passes
    interrupted(config, "broken", after=3)
    run(config, "broken", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))


def test_seconds_end_a_run_and_are_kept_when_it_is_resumed(configured, run, interrupted, tmp_path):
    config = configured(train={"steps": None, "seconds": 1.0})
    interrupted(config, "broken", after=5)
    steps = [r for r in read_log(tmp_path / "broken" / "log.jsonl") if r["event"] == "step"]
    assert 0 < steps[-1]["share"] < 1
    cost = run(config, "broken", resume=True).cost
    assert cost.steps > 5
    assert 1.0 <= cost.training_seconds < 1.5  # of both parts
    records = [r for r in read_log(tmp_path / "broken" / "log.jsonl") if r["event"] == "step"]
    assert records[:5] == steps
    assert records[5]["share"] > steps[-1]["share"]
    assert [r["step"] for r in records] == list(range(1, cost.steps + 1))


def test_budgets_are_what_they_say(configured, run):
    by_gradients = {"steps": None, "gradients": 30}
    assert run(configured(train=by_gradients), "sum").cost.steps == 10  # three tasks a step
    pairs = configured(train=by_gradients, method={"name": "dotprod", "mode": "difference"})
    assert run(pairs, "dotprod").cost.steps == 10  # 2 batches at 1.5 gradients
    epochs = configured(train={"steps": None, "epochs": 1})
    assert run(epochs, "epochs").cost.steps == 8  # 24 batches, three a step
