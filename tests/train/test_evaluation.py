"""What is evaluated and kept as the best."""

import torch
from train_toy import same, weights
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
