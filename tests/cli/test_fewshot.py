"""`gradaccord fewshot`: results, figures, resume, overrides, and what a mistake says."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("matplotlib")
from few_shot_runs import final_state, newest_state, same, write_patterns
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from gradaccord.cli.fewshot import app
from gradaccord.cli.fewshot.screen import progress
from gradaccord.data.images.class_splits import load
from gradaccord.meta import figures
from gradaccord.meta.presets import PRESETS
from gradaccord.meta.progress import RunProgress
from gradaccord.meta.records import read_records
from gradaccord.meta.run import Run
from gradaccord.meta.settings import FewShotSettings
from gradaccord.report.fewshot_results import BEGIN, END
from gradaccord.runs.checkpoints import Checkpoints
from gradaccord.runs.lock import locked
from gradaccord.runs.log import read_log

SMALL = [
    "--filters", "4", "--queries", "2", "--tasks", "2", "--inner-steps", "2", "--validation-tasks", "4",
    "--test-tasks", "6", "--test-queries", "2", "--validate-every", "4",
]  # fmt: skip


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    return write_patterns(tmp_path_factory.mktemp("data") / "patterns.zip")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)


def call(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=True)


def one_line(output: str) -> str:
    """Without the box that typer draws around an error."""
    return " ".join(output.replace("│", " ").split())


def timeless(folder: Path) -> list[dict[str, object]]:
    return [
        {k: v for k, v in record.items() if k != "seconds"} for record in read_log(folder / "log.jsonl")
    ]


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
    for command in ("eval", "figures", "record"):  # what to do next
        assert f"gradaccord fewshot {command} {out}" in text
    for name in ("validation.png", "sharing.png", "adaptation.png", "episode.png"):
        with Image.open(out / name) as figure:
            assert min(figure.size) > 300
            assert len(set(figure.convert("L").resize((64, 64)).tobytes())) > 4  # something is drawn
    records = read_log(out / "seed-0" / "log.jsonl")
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
        [sys.executable, "-m", "gradaccord", "fewshot", "train", *options, "--out", str(killed)],
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
    reached = newest_state(killed / "seed-0")["iteration"]
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


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_says_how_to_go_on(pictures, tmp_path, kind):
    """So does SIGTERM, by which schedulers end a process."""
    out = tmp_path / "run"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "gradaccord", "fewshot", "train", "--data", str(pictures), *SMALL,
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
    saved = newest_state(out / "seed-0")["iteration"]
    assert saved >= 4
    again = call("train", "--resume", out, "--iterations", saved + 2)
    assert again.exit_code == 0, again.output
    assert read_log(out / "seed-0" / "log.jsonl")[-2]["iteration"] == saved + 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--ways", "6"], "`ways` is 6, but a part of"),
        (["--ways", "6"], "(train, val or test) has only 5 classes: use --ways 5, or give more"),
        (["--shots", "7"], "has 8 examples, fewer than 7 shots + 2 queries = 9"),
        (["--algorithm", "mammal"], "There is no algorithm 'mammal': did you mean 'maml'?"),
        (["--algorithm", "reptile", "--share"], "`share` adds gradient sharing to maml"),
        (["--preset", "none"], "There is no preset 'none': choose one of reptile-omniglot-5way"),
        (["--preset", "reptile-omniglot-5way", "--algorithm", "maml"], "is for reptile, not for maml"),
        (["--inner-lr", "-1"], "`inner_lr` is -1.0: input should be greater than 0."),
        (["--network", "resnet"], "`network` is 'resnet': input should be 'auto', 'maml'"),
        (["--data", "no/such/folder"], "no/such/folder is neither a folder or zip file of images"),
        (["--data", "omniglot"], "give --data-dir"),
        (["--minutes", "0"], "`minutes` is 0.0"),
        (["inner_lr"], "The override 'inner_lr' has no `=`: write key=value"),
        (["inner_rl=1"], "has no key 'inner_rl': did you mean 'inner_lr'?"),
        (["tasks=two"], "`tasks` is 'two': input should be a valid integer"),
        (["schedule=step"], "`schedule` is 'step': input should be 'constant', 'linear' or 'cosine'."),
        (["keep=0"], "`keep` is '0': input should be greater than or equal to 1."),
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
    changed = FewShotSettings.read(out).changed(inner_lr=0.3)
    with pytest.raises(
        ValueError, match=r"has inner_lr=0.1, not 0.3: resume it with the same settings"
    ):
        Run(changed, load(pictures), out / "seed-0")
    assert "already finished" in call("train", "--resume", out).output
    longer = call("train", "--resume", out, "--iterations", 3)
    assert longer.exit_code == 0, longer.output
    assert "nowhere holds no run" in one_line(call("train", "--resume", "nowhere").output)


def test_overrides_and_options_are_the_same_settings(pictures, tmp_path):
    values = dict(zip([o[2:].replace("-", "_") for o in SMALL[::2]], SMALL[1::2], strict=True))
    overrides = [f"{name}={value}" for name, value in values.items()]
    more = ["algorithm=meta-sgd", "share=true", "clip=10", "schedule=cosine", "iterations=2"]
    out = tmp_path / "run"
    result = call("train", f"data={pictures}", *overrides, *more, "--out", out)
    assert result.exit_code == 0, result.output
    settings = FewShotSettings.read(out)
    assert (settings.algorithm, settings.share, settings.clip) == ("meta-sgd", True, 10.0)
    assert (settings.schedule, settings.iterations, settings.filters) == ("cosine", 2, 4)
    longer = call("train", "--resume", out, "iterations=3")
    assert longer.exit_code == 0, longer.output
    assert "--clip cannot be given with --resume" in one_line(
        call("train", "--resume", out, "clip=1").output
    )


def test_every_setting_is_an_option_with_its_default():
    shown = one_line(call("train", "--help").output)
    for name in FewShotSettings.model_fields:
        assert f"--{name.replace('_', '-')} " in shown
    assert "Tasks a meta-update is averaged over. Default: 4 with maml, 5 with reptile." in shown
    assert "Fixed tasks of the final test. Default: 600." in shown


def test_a_folder_that_another_process_works_in(pictures, tmp_path):
    with locked(tmp_path / "run"):
        result = call("train", "--data", pictures, *SMALL, "--out", tmp_path / "run")
    assert result.exit_code != 0
    assert "is in use by another process: wait for it, or choose another --out." in one_line(
        result.output
    )


def test_presets_are_listed():
    shown = call("presets").output
    assert shown.count("loss: ") == len(PRESETS)
    assert all(len(line) <= 80 for line in shown.splitlines())


def class_folders(path: Path, classes: int) -> Path:
    """Class folders without a split: a shade each, a little noise."""
    generator = torch.Generator().manual_seed(0)
    for c in range(classes):
        (path / f"kind-{c}").mkdir(parents=True)
        for i in range(5):
            pixels = torch.randint(10 * c, 10 * c + 20, (16, 16), generator=generator)
            Image.fromarray(pixels.to(torch.uint8).numpy()).save(path / f"kind-{c}" / f"{i}.png")
    return path


def test_a_few_class_folders_of_ones_own(tmp_path, monkeypatch):
    """Nine classes are enough for three ways; the picture shows their names, every curve chance."""
    drawn = {}
    monkeypatch.setattr(figures, "write", lambda figure, path: drawn.setdefault(path, figure) and path)
    photos = class_folders(tmp_path / "photos", 9)
    options = ["--data", photos, *SMALL, "--iterations", 2, "--out", tmp_path / "run"]
    result = call("train", *options, "--ways", 3)
    assert result.exit_code == 0, result.output
    assert "photos: 3 / 3 / 3 classes to train / validate / test" in result.output
    names = load(photos, ways=3).test.names
    for path, figure in drawn.items():
        axes = figure.axes[0]
        if path.name == "episode.png":
            assert {t.get_text().split()[0] for t in axes.get_yticklabels()} == set(names)
        else:
            assert "chance 33.3 %" in {text.get_text() for text in axes.texts}
    assert {path.name for path in drawn} == {"validation.png", "adaptation.png", "episode.png"}

    few = one_line(call("train", *options[:-1], tmp_path / "other").output)
    assert (
        "`ways` is 5, but photos has only 9 classes for training, validation and test together: " in few
    )
    assert "use --ways 3, or give 15 classes." in few


def test_photos_of_any_shape_are_made_squares(tmp_path):
    photos = class_folders(tmp_path / "photos", 9)
    for path in photos.rglob("*.png"):
        Image.open(path).resize((30, 20)).save(path)
    Image.open(path).resize((24, 40)).save(path)
    options = ["--data", photos, *SMALL, "--iterations", 2, "--ways", 3]
    result = call("train", *options, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "The pictures are resized to 20x20; --size sets another size." in result.output
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["size"] == 20
    chosen = call("train", *options, "--size", 16, "--out", tmp_path / "other")
    assert chosen.exit_code == 0, chosen.output
    assert "resized" not in chosen.output


def test_a_run_is_recorded_and_shown_in_a_page(pictures, tmp_path):
    run, records, page = tmp_path / "run", tmp_path / "records", tmp_path / "page.md"
    page.write_text(f"Before.\n{BEGIN}\n{END}\nAfter.\n")
    trained = call("train", "--data", pictures, *SMALL, "--iterations", 4, "--seeds", 2, "--out", run)
    assert trained.exit_code == 0, trained.output
    for seed in (0, 1):  # as a run of an older release, which recorded neither
        (run / f"seed-{seed}" / "about.json").unlink()
        checkpoints = Checkpoints(run / f"seed-{seed}" / "checkpoints")
        state = newest_state(run / f"seed-{seed}")
        del state["processor_seconds"]
        checkpoints.save(state["iteration"], state)
    options = [run, "--out", records, "--tasks", 4, "--shots", 1, "--shots", 2, "--both"]
    wrong = call("record", *options, "--commit", "0b660fc; rm")
    assert wrong.exit_code != 0
    assert "`commit` is '0b660fc; rm': give 7 to 40 hexadecimal digits" in one_line(wrong.output)
    done = call("record", *options, "--commit", "0b660fc")
    assert done.exit_code == 0, done.output
    found = read_records(records)
    assert [(r.seed, r.commit, r.core_hours) for r in found] == [
        (0, "0b660fc", None),
        (1, "0b660fc", None),
    ]
    assert [len(r.tests) for r in found] == [4, 4]
    shown = call("docs", records, "--page", page)
    assert shown.exit_code == 0, shown.output
    assert page.read_text().count("| not recorded (training took 0.00 h) |") == 8
    (figure,) = (tmp_path / "figures").glob("*.png")
    assert f"](figures/{figure.name})" in page.read_text()
    empty = tmp_path / "empty.md"
    empty.touch()
    assert "has no place for the results" in one_line(call("docs", records, "--page", empty).output)


def test_ctrl_c_in_the_test_says_how_to_go_on(pictures, tmp_path, monkeypatch) -> None:
    def interrupted(run: Run, show: object) -> None:
        raise KeyboardInterrupt

    options = ["--data", pictures, *SMALL, "--iterations", 2]
    with monkeypatch.context() as patched:
        patched.setattr(Run, "test", interrupted)
        stopped = call("train", *options, "--out", tmp_path / "run")
    assert stopped.exit_code == 130
    assert f"is kept. Continue with: gradaccord fewshot train --resume {tmp_path / 'run'}" in one_line(
        stopped.output
    )
    again = call("train", "--resume", tmp_path / "run")
    assert again.exit_code == 0, again.output


def test_label_time_and_status_fit_into_80_columns():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, record=True)
    label = "MAML++ with sharing on Omniglot, seed 0"
    state = RunProgress(10, 100, 3.0, None)
    state.loss, state.accuracy, state.validation, state.best = 1.2, 40.0, (41.2, 1.1), 42.0
    with progress(console, label) as show:
        show(state)
    shown = console.export_text()
    assert f"{label} ━" in shown
    assert " 10% 0:00 left" in shown
    assert "loss 1.200  train 40.0 %  validation 41.2 ± 1.1 % (best 42.0)" in shown
