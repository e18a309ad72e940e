"""Few-shot runs through the command line: results, figures, resume, and what a mistake says."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("matplotlib")
from PIL import Image
from typer.testing import CliRunner

from gradaccord.data.class_splits import load
from gradaccord.meta.commands import app
from gradaccord.meta.construction import build_learner, build_network, rate_at
from gradaccord.meta.presets import PRESETS, find_preset, ten_times_inner_rate
from gradaccord.meta.settings import ALGORITHMS, SHARE, Settings, settings_for
from gradaccord.meta.trained import Trained
from gradaccord.meta.training import Run, read_log

SMALL = [
    "--filters", "4", "--queries", "2", "--tasks", "2", "--inner-steps", "2", "--validation-tasks", "4",
    "--test-tasks", "6", "--test-queries", "2", "--validate-every", "4",
]  # fmt: skip


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """A zip with 8 / 5 / 5 classes of 16x16 images: each class a pattern, each image it with noise."""
    path = tmp_path_factory.mktemp("data") / "patterns.zip"
    generator = torch.Generator().manual_seed(0)
    with zipfile.ZipFile(path, "w") as archive:
        for part, classes in (("train", 8), ("val", 5), ("test", 5)):
            for c in range(classes):
                coarse = torch.randint(0, 110, (4, 4), generator=generator)
                pattern = coarse.repeat_interleave(4, 0).repeat_interleave(4, 1)
                for i in range(8):
                    noise = torch.randint(0, 145, (16, 16), generator=generator)
                    buffer = io.BytesIO()
                    pixels = (pattern + noise).to(torch.uint8).numpy()
                    Image.fromarray(pixels).save(buffer, "PNG")
                    archive.writestr(f"{part}/{part}{c}/{i}.png", buffer.getvalue())
    return path


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)


def call(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=True)


def one_line(output: str) -> str:
    """Without the box that typer draws around an error."""
    return " ".join(output.replace("│", " ").split())


def final_state(folder: Path) -> dict[str, object]:
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    state.pop("seconds")
    state["history"] = [entry[:3] for entry in state["history"]]  # without the time
    state["means"] = state["means"][:2]
    state.pop("log_bytes")  # the log holds times
    return state


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b or (a != a and b != b)


def timeless(folder: Path) -> list[dict[str, object]]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in read_log(folder)]


def test_a_run_trains_tests_and_draws(pictures, tmp_path):
    out = tmp_path / "run"
    result = call(
        "train", "--data", pictures, *SMALL, "--share", "--iterations", 9, "--seeds", 2, "--out", out
    )
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "non-transductive" in text
    assert "ensemble of 4" in text
    assert "not a single model" in text
    assert "mean of 2 seeds" in text
    for name in ("validation.png", "sharing.png", "adaptation.png", "episode.png"):
        with Image.open(out / name) as figure:
            assert min(figure.size) > 300
            assert len(set(figure.convert("L").resize((64, 64)).tobytes())) > 4  # something is drawn
    records = read_log(out / "seed-0")
    assert [r["iteration"] for r in records if "loss" in r] == list(range(1, 10))
    assert [r["iteration"] for r in records if "validation" in r] == [0, 4, 8, 9]
    assert len(records[1]["sigma_m"]) == len(records[1]["sigma_lambda"]) == 2
    summary = json.loads((out / "seed-1" / "results.json").read_text())
    assert summary["single"]["tasks"] == 6
    assert summary["single"]["models"] == 1
    assert summary["single"]["transductive"] is False
    assert len(summary["curve"]["by_step"]) == 11  # further than the 2 steps of training

    again = call("eval", out, "--tasks", 6, "--ensemble", "--by-step", "--steps", 3)
    assert again.exit_code == 0, again.output
    assert again.output.count("after  3 steps") == 2
    once = call("eval", out / "seed-1", "--tasks", 6)
    assert f"{summary['single']['value']:.2f} %" in once.output
    both = call("figures", out, "--out", tmp_path / "curves.svg")
    assert both.exit_code == 0, both.output
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_kill_9_and_resume_end_at_the_same_bits(pictures, tmp_path):
    options = ["--data", str(pictures), *SMALL, "--share", "--iterations", "24"]
    whole = call("train", *options, "--out", tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "gradaccord.meta.commands", "train", *options, "--out", str(killed)],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())},
    )
    try:
        deadline = time.monotonic() + 120
        while not (killed / "seed-0" / "best-8.pt").exists():
            assert process.poll() is None, "the run ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    reached = torch.load(killed / "seed-0" / "checkpoint.pt", weights_only=True)["iteration"]
    assert 4 <= reached < 24
    with (killed / "seed-0" / "log.jsonl").open("a") as log:
        log.write('{"iteration": 23, "half a li')  # as a kill may leave it
    resumed = call("train", "--resume", killed)
    assert resumed.exit_code == 0, resumed.output
    assert same(final_state(killed / "seed-0"), final_state(tmp_path / "whole" / "seed-0"))
    assert timeless(killed / "seed-0") == timeless(tmp_path / "whole" / "seed-0")
    results = [
        json.loads((f / "seed-0/results.json").read_text()) for f in (killed, tmp_path / "whole")
    ]
    assert results[0]["single"] == results[1]["single"]
    assert results[0]["ensemble"] == results[1]["ensemble"]


@pytest.mark.parametrize("method", ["reptile", "dotprod-inner", "maml++"])
def test_stopped_at_any_iteration_and_gone_on_equals_unbroken(pictures, tmp_path, method):
    splits = load(pictures)
    settings = settings_for(
        method, filters=4, queries=2, tasks=2, train_shots=4, shots=1, inner_batch=5, inner_steps=2,
        evaluation_steps=3, iterations=6, validate_every=4, validation_tasks=3, test_queries=2,
    )  # fmt: skip
    unbroken = Run(settings, splits, tmp_path / "unbroken", 3)
    assert unbroken.train()
    for count in range(1, 7):
        run = Run(settings, splits, tmp_path / "broken", 3)
        assert run.standing.iteration == count - 1
        run.train(stop=lambda: True)
    run = Run(settings, splits, tmp_path / "broken", 3)
    assert run.train()
    assert same(final_state(tmp_path / "broken"), final_state(tmp_path / "unbroken"))


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_says_how_to_go_on(pictures, tmp_path, kind):
    """So does SIGTERM, by which schedulers end a process."""
    out = tmp_path / "run"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "gradaccord.meta.commands", "train", "--data", str(pictures), *SMALL,
            "--iterations", "100000", "--out", str(out),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not (out / "seed-0" / "best-4.pt").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(kind)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"gradaccord fewshot train --resume {out}" in output
    saved = torch.load(out / "seed-0" / "checkpoint.pt", weights_only=True)["iteration"]
    assert saved >= 4
    again = call("train", "--resume", out, "--iterations", saved + 2)
    assert again.exit_code == 0, again.output
    assert read_log(out / "seed-0")[-2]["iteration"] == saved + 2


def test_minutes_end_a_run_and_its_linear_schedule(pictures, tmp_path):
    settings = settings_for(
        "reptile", minutes=0.01, filters=4, train_shots=4, inner_batch=5, evaluation_steps=2,
        validation_tasks=2, test_queries=2, queries=2,
    )  # fmt: skip
    assert settings.iterations is None
    run = Run(settings, load(pictures), tmp_path / "run")
    assert run.train()
    assert 0.6 <= run.standing.seconds < 5
    assert run.optimizer.param_groups[0]["lr"] < 0.9
    assert rate_at(settings, 1.0) == 0.0


def test_training_learns_and_the_best_is_kept(pictures, tmp_path):
    settings = settings_for(
        "maml", filters=8, queries=3, tasks=4, inner_steps=2, iterations=30, validate_every=10,
        validation_tasks=20, test_tasks=10, test_queries=3, keep=2,
    )  # fmt: skip
    state = torch.get_rng_state()
    run = Run(settings, load(pictures), tmp_path / "run")
    run.train()
    tested = run.test()
    assert torch.equal(torch.get_rng_state(), state)
    assert run.history[-1][1] > run.history[0][1] + 5
    best = [accuracy for accuracy, _ in run.best]
    assert best == sorted((entry[1] for entry in run.history), reverse=True)[:2]
    assert {path.name for path in (tmp_path / "run").glob("best-*.pt")} == {
        f"best-{iteration}.pt" for _, iteration in run.best
    }
    assert tested["ensemble"].models == 2
    trained = Trained(tmp_path / "run", load(pictures))
    assert trained.iterations == [iteration for _, iteration in run.best]
    assert same(dict(trained.learner.state_dict()), dict(run.learner.state_dict()))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--ways", "9"], "`ways` is 9, but there are only 8 classes"),
        (["--ways", "6"], "`ways` is 6, but there are only 5 classes"),
        (["--shots", "7"], "has 8 examples, fewer than 7 shots + 2 queries = 9"),
        (["--algorithm", "mammal"], "`algorithm` is 'mammal': choose one of maml, fomaml"),
        (["--algorithm", "reptile", "--share"], "`share` adds gradient sharing to maml"),
        (["--preset", "none"], "There is no preset 'none': choose one of reptile-omniglot-5way"),
        (["--preset", "reptile-omniglot-5way", "--algorithm", "maml"], "is for reptile, not for maml"),
        (["--inner-lr", "-1"], "`inner_lr` is -1.0: a rate must be above 0"),
        (["--network", "resnet"], "`network` is 'resnet': choose one of auto, maml"),
        (["--data", "no/such/folder"], "no/such/folder is no folder or zip file of images"),
        (["--data", "omniglot"], "Give --data-dir"),
        (["--minutes", "0"], "`minutes` is 0.0"),
        (["--resume", "nowhere"], "--data cannot be given with --resume"),
    ],
)
def test_mistakes_get_one_sentence(pictures, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    first = [] if "--data" in arguments else ["--data", str(pictures)]
    result = call("train", *first, *SMALL, "--iterations", 2, *arguments)
    assert result.exit_code != 0
    assert sentence in one_line(result.output)


def test_a_folder_in_use_is_not_overwritten_and_resume_keeps_settings(pictures, tmp_path):
    out = tmp_path / "run"
    options = ["--data", pictures, *SMALL, "--out", out]
    assert call("train", *options, "--iterations", 2).exit_code == 0
    again = call("train", *options, "--iterations", 3)
    assert again.exit_code != 0
    assert "holds a run already" in one_line(again.output)
    changed = Settings.read(out / "settings.json").continued(inner_lr=0.3)
    with pytest.raises(ValueError, match=r"has inner_lr=0.1, not 0.3: go on with the same settings"):
        Run(changed, load(pictures), out / "seed-0")
    assert "finished before" in call("train", "--resume", out).output
    longer = call("train", "--resume", out, "--iterations", 3)
    assert longer.exit_code == 0, longer.output
    assert "nowhere holds no run" in one_line(call("train", "--resume", "nowhere").output)


def test_divergence_ends_with_the_remedy(pictures, tmp_path):
    settings = settings_for(
        "maml", inner_lr=1e30, filters=4, queries=2, test_queries=2, validation_tasks=2
    )
    run = Run(settings, load(pictures), tmp_path / "run")
    with pytest.raises(FloatingPointError, match="lower --inner-lr"):
        run.train()


def test_the_generators_of_accelerators_were_reseeded_by_a_run(pictures, tmp_path, monkeypatch):
    """It must leave them alone: nothing would put them back."""
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    options = {"filters": 4, "queries": 2, "test_queries": 2, "validation_tasks": 2, "iterations": 1}
    before = torch.get_rng_state()
    Run(settings_for("fomaml", **options), load(pictures), tmp_path / "run", seed=3).train()
    assert not seeds
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(0)
    assert seeds  # this is the way by which torch would have done it


@pytest.mark.parametrize("method", ALGORITHMS)
def test_a_run_never_steps_on_a_gradient_that_is_not_finite(pictures, tmp_path, method):
    options = {"filters": 4, "queries": 2, "train_shots": 4, "inner_batch": 5, "iterations": 4}
    run = Run(settings_for(method, test_queries=2, **options), load(pictures), tmp_path / "run")
    run._step()
    before = {name: tensor.clone() for name, tensor in run.learner.state_dict().items()}
    with torch.no_grad():
        run.learner.model.head.bias[0] = torch.nan
    run._step()
    run.learner.model.head.bias.data.copy_(before["model.head.bias"])
    assert same(before, run.learner.state_dict())
    run._step()
    assert not same(before, run.learner.state_dict())
    assert all(bool(p.isfinite().all()) for p in run.learner.parameters())


def test_every_algorithm_and_preset_can_be_built(pictures):
    splits = load(pictures)
    for algorithm in ALGORITHMS:
        for share in (False, True) if algorithm in SHARE else (False,):
            settings = settings_for(algorithm, share=share, filters=4)
            learner = build_learner(settings, build_network(settings, splits.train))
            assert sum(p.numel() for p in learner.parameters()) > 0
    for preset in PRESETS.values():
        settings = settings_for(preset.algorithm, preset=preset.name)
        build_network(settings, splits.train)
        assert "mean" in preset.loss_scale
        assert preset.source
    assert call("presets").output.count("loss: ") == len(PRESETS)


def test_rates_of_finn_are_those_of_a_mean_loss():
    """0.4 on a sum over five ways is 2.0 on their mean."""
    assert find_preset("maml-omniglot-5way").settings["inner_lr"] == 2.0
    assert find_preset("maml-omniglot-20way").settings["inner_lr"] == 2.0
    assert find_preset("maml-miniimagenet").settings["inner_lr"] == 0.05
    recipe = ten_times_inner_rate()
    assert sorted(run["inner_lr"] for run in recipe.runs.values()) == [0.1, 0.1, 1.0, 1.0]
    assert sum(run["share"] for run in recipe.runs.values()) == 2
