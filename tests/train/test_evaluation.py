"""What is evaluated and kept as the best."""

from statistics import fmean

import pytest
import torch
from small_models import TEXTS
from train_toy import said, same, weights
from transformers import AutoModel

from gradaccord.runs.checkpoints import load as load_state


def test_trajectory_methods_are_evaluated_and_saved_at_their_outer_weights(
    configured, run, tmp_path, checkpoint
):
    """With an outer rate of almost nothing those are the pretrained ones, wherever a run is stopped."""
    method = {"name": "sequential_reptile", "inner_steps": 5, "outer_lr": 1e-9}
    results = run(configured(method=method, train={"steps": 8, "lr": 1e-2, "evaluate_every": 3}))
    assert len(results.evaluations) >= 2
    assert all(each.distance.total < 1e-5 for each in results.evaluations)
    before, after = (
        AutoModel.from_pretrained(folder).state_dict()
        for folder in (checkpoint, tmp_path / "run" / "model")
    )
    assert all(torch.allclose(value, after[name], atol=1e-6) for name, value in before.items())
    plain = run(configured(method="sum", train={"steps": 8, "lr": 1e-2, "evaluate_every": 3}), "plain")
    assert plain.evaluations[-1].distance.total > 1e-2


def test_tasks_without_dev_beside_others_are_told_what_they_miss(content, configured, run):
    film = content["tasks"]["film"]
    bare = {**film, "files": {"train": film["files"]["train"]}}
    said = []
    run(configured(tasks={"film": film, "bare": bare}, train={"steps": 1}), say=said.append)
    assert (
        "Warning: bare: no labelled dev examples, so no score on dev and no say in which weights are "
        "best; name `dev` files, or cut them out of train, such as `cut: 0.1`."
    ) in said


def test_without_a_dev_split_the_last_weights_are_kept(content, configured, run, tmp_path):
    film = {**content["tasks"]["film"], "files": {"train": content["tasks"]["film"]["files"]["train"]}}
    said = []
    results = run(configured(tasks={"film": film}), say=said.append)
    assert any("No trained task has a labelled dev split" in sentence for sentence in said)
    assert results.best_step == 12
    kept = load_state(tmp_path / "run" / "best" / "step-00000012")["model"]
    assert same(kept, weights(tmp_path / "run"))


def test_evaluation_and_probes_count_in_the_cost_apart_from_training(configured, run, interrupted):
    config = configured(train={"steps": 6, "evaluate_every": 2})
    whole = run(config, "whole").cost
    parts = (whole.training_seconds, whole.evaluation_seconds, whole.probe_seconds)
    assert all(part > 0 for part in parts)
    assert whole.processor == sum(parts)
    assert whole.processor < whole.cpu_seconds  # of the process, which also read the data
    unprobed = configured(
        train={"steps": 6, "evaluate_every": 2}, probe={"cosine": False, "distance": False}
    )
    assert run(unprobed, "unprobed").cost.probe_seconds < 0.1 * whole.probe_seconds
    interrupted(config, "broken", after=5)
    resumed = run(config, "broken", resume=True).cost
    assert resumed.probe_seconds > 0.5 * whole.probe_seconds  # those before the interruption count
    assert resumed.batches == whole.batches == 18


def test_the_chosen_metric_chooses_the_weights_and_makes_the_averages(content, configured, run):
    chosen = {"film": "f1", "bank": "accuracy", "long": "spearman"}
    tasks = {name: {**content["tasks"][name], "metric": metric} for name, metric in chosen.items()}
    results = run(configured(tasks=tasks, train={"steps": 6, "lr": 5e-3, "evaluate_every": 1}))
    assert results.metrics == chosen
    averages = {
        e.step: fmean(e.scores[task][metric] for task, metric in chosen.items())
        for e in results.evaluations
    }
    assert [e.average for e in results.evaluations] == pytest.approx(list(averages.values()))
    assert results.best_step == max(averages, key=averages.get)
    assert results.main_scores("dev")["film"] == results.dev["film"]["f1"]
    assert results.reference("film", "dev").majority == pytest.approx(100 / 3)  # of F1, not accuracy


@pytest.mark.parametrize("metric", ["perplexity", "loss"])
def test_a_metric_is_better_the_lower_where_that_is_so(
    metric, content, configured, run, tmp_path, capsys
):
    """Masked-LM scores get worse here, at a rate that is far too high: the first weights are kept."""
    (tmp_path / "text.txt").write_text("\n".join(TEXTS * 3))
    files = dict.fromkeys(("train", "dev"), str(tmp_path / "text.txt"))
    task = {"kind": "masked_lm", "files": files, "max_length": 16, "metric": metric}
    train = {"steps": 4, "lr": 0.5, "evaluate_every": 1, "warmup": 0.0, "clip": None}
    results = run(configured(tasks={"text": task}, train=train))
    values = {e.step: e.scores["text"][metric] for e in results.evaluations}
    assert min(values.values()) < max(values.values())
    assert results.best_step == min(values, key=values.get)
    assert results.metrics == {"text": f"-{metric}"}
    assert results.average("dev") == -results.dev["text"][metric]
    assert next(iter(results.scores_shown("dev")["text"])) == f"-{metric}"
    known = results.reference("text", "dev")
    assert known.chance <= known.majority < 0  # by the tokens' frequencies is better than uniform
    shown = said(capsys, "export", tmp_path / "run", "--out", tmp_path / "out", code=0)
    assert "Written" in shown
    assert f"| -{metric} | -{results.dev['text'][metric]:.2f} |" in (
        (tmp_path / "out" / "README.md").read_text().replace("\\", "")
    )


def test_a_metric_that_a_kind_has_not_is_one_sentence(written, capsys):
    wrong = said(capsys, "validate", written(), "tasks.film.metric=F1")
    assert "Task 'film': `metric` is 'F1': " in wrong
    assert "'accuracy' or 'f1'" in wrong
    wrong = said(capsys, "validate", written(), "tasks.long.metric=spearmann")
    assert "did you mean 'spearman'? (It may be 'pearson' or 'spearman'.)" in wrong
