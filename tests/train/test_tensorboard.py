"""The curves that TensorBoard shows are those of the log."""

import sys

import pytest
from train_toy import said

from gradaccord.runs.log import read_log


def curves(folder):
    """Tag -> {step: value}, as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_curves_are_those_of_the_log_also_after_a_restart(configured, run, tmp_path, interrupted):
    pytest.importorskip("tensorboard")
    config = configured(train={"tensorboard": True, "steps": 8, "evaluate_every": 4}, method="pcgrad")
    interrupted(config, "run", after=5)
    run(config, resume=True)

    found = curves(tmp_path / "run")
    records = read_log(tmp_path / "run" / "log.jsonl")
    steps = [record for record in records if record["event"] == "step"]
    assert len(steps) == 8
    for task in ("film", "bank", "long"):
        expected = {r["step"]: r["loss"][task] for r in steps}
        assert found[f"loss/{task}"] == pytest.approx(expected, rel=1e-6)
    assert found["alignment/cosine"] == pytest.approx({r["step"]: r["cosine"] for r in steps}, rel=1e-6)
    evaluations = {r["step"]: r for r in records if r["event"] == "evaluation"}
    assert sorted(evaluations) == [4, 8]
    assert found["scores/film/accuracy"] == pytest.approx(
        {step: r["scores"]["film"]["accuracy"] for step, r in evaluations.items()}
    )
    assert found["distance/total"] == pytest.approx(
        {step: r["distance"]["total"] for step, r in evaluations.items()}, rel=1e-6
    )


def test_nothing_is_written_unless_asked_for(configured, run, tmp_path):
    run(configured(train={"steps": 1}))
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_a_missing_package_is_named_with_the_remedy(written, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    file = written(train={"tensorboard": True, "steps": 1})
    wrong = said(capsys, "train", file, "--out", tmp_path / "run")
    assert 'pip install "gradaccord[tensorboard]"' in wrong
    # A run that failed before its first step does not stand in the way of the next try.
    said(capsys, "train", written(train={"steps": 1}), "--out", tmp_path / "run", code=0)
