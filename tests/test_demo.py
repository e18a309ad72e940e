"""The demo: a fair comparison, honest words, and an encoder that learns."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.nn.functional import cross_entropy

import gradaccord
from gradaccord.data import cldr
from gradaccord.demo.compare import Standing, compare
from gradaccord.demo.results import Comparison, Outcome, finding
from gradaccord.demo.screen import Screen, live_table, results
from gradaccord.demo.settings import METHODS, Settings
from gradaccord.models.characters import CharacterClassifier


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the demo: two that wait for one another are slower
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def both() -> Comparison:
    return compare(Settings(seeds=1, steps=3, methods=("sum", "pcgrad")))


def outcome(accuracy: float) -> Outcome:
    return Outcome({"de": accuracy, "sw": accuracy}, 0.5, 0.1, 0.4, 0.2, 1.1)


def comparison(**accuracies: list[float]) -> Comparison:
    settings = Settings(seeds=len(accuracies["sum"]), methods=tuple(accuracies))
    outcomes = {method: [outcome(a) for a in values] for method, values in accuracies.items()}
    return Comparison(settings, outcomes, settings.steps)


def rendered(item: object, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(item)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_few_real_steps_lower_the_loss() -> None:
    problem = cldr.load(["de", "sw"])
    torch.manual_seed(0)
    model = CharacterClassifier(len(problem.vocabulary), problem.tasks, len(problem.kinds))
    method = gradaccord.PCGrad(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    batches = {
        language: (problem.vocabulary.encode(task.train.texts[:32]), task.train.labels[:32])
        for language, task in problem.tasks.items()
    }
    losses = []
    for _ in range(15):
        report = method.backward(
            {t: lambda t=t, b=b: cross_entropy(model(b[0], t), b[1]) for t, b in batches.items()}
        )
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(report.losses.mean()))
    assert losses[0] == pytest.approx(math.log(5), abs=0.3)  # knows nothing of 5 kinds
    assert losses[-1] < 0.7 * losses[0]


def test_the_encoder_is_small_and_blind_to_padding() -> None:
    model = CharacterClassifier(400, ["de", "sw"], 5).eval()
    assert 100_000 < sum(p.numel() for p in model.parameters()) < 250_000
    tokens = torch.randint(3, 400, (4, 10))
    padded = torch.nn.functional.pad(tokens, (0, 7))
    torch.testing.assert_close(model(padded, "sw"), model(tokens, "sw"))
    assert model.encoder(padded)[:, 10:].abs().max() == 0
    assert torch.isfinite(model(torch.zeros(1, 5, dtype=torch.int64), "de")).all()


def test_a_methods_result_does_not_depend_on_its_company(both: Comparison) -> None:
    alone = compare(Settings(seeds=1, steps=3, methods=("sum",)))
    there, here = both.outcomes["sum"][0], alone.outcomes["sum"][0]
    assert here.accuracy == there.accuracy
    assert here.train_loss == there.train_loss
    assert here.cosine == there.cosine
    assert both.outcomes["pcgrad"][0].train_loss != there.train_loss


def test_global_random_state_and_threads_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    chosen: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    compare(Settings(seeds=1, steps=1, methods=("sum",)))
    assert torch.equal(torch.rand(3), expected)
    assert chosen == [1, 7]


def test_an_interrupt_in_the_first_seed_gives_what_is_done() -> None:
    seen: list[Standing] = []

    def stop(standing: Standing) -> None:
        seen.append(standing)
        if standing.step == 2:
            raise KeyboardInterrupt

    cut = compare(Settings(seeds=3, steps=50, methods=("sum",)), stop)
    assert (cut.interrupted, cut.seeds, cut.steps) == (True, 1, 2)
    assert "Interrupted: 1 of 3 seeds, 2 of 50 steps" in rendered(results(cut))
    table = rendered(live_table(seen[0]))
    assert "seed 1 of 3" in table
    assert "step 1/50" in table


def test_an_interrupt_later_keeps_whole_seeds() -> None:
    def stop(standing: Standing) -> None:
        if (standing.seed, standing.step) == (1, 1):
            raise KeyboardInterrupt

    cut = compare(Settings(seeds=3, steps=2, methods=("sum",)), stop)
    assert (cut.interrupted, cut.seeds, cut.steps) == (True, 1, 2)


def test_a_winner_needs_more_than_two_standard_errors() -> None:
    noisy = comparison(sum=[0.50, 0.52, 0.54], pcgrad=[0.53, 0.51, 0.56])
    assert finding(noisy).startswith("No clear difference: over 3 seeds")
    # Seeds differ by far more than methods do; only the paired difference can see it.
    clear = comparison(sum=[0.40, 0.50, 0.60], pcgrad=[0.42, 0.521, 0.619], gradvac=[0.4, 0.5, 0.6])
    assert "pcgrad is 2.00 ± 0.06 points better than sum" in finding(clear)
    assert "chance" in finding(clear)
    assert "gradvac" not in finding(clear)
    worse = comparison(sum=[0.5] * 5, gradnorm=[0.47, 0.48, 0.48, 0.48, 0.49])
    assert finding(worse) == "Over 5 seeds gradnorm is 2.00 ± 0.32 points worse than sum."
    assert finding(comparison(sum=[0.5], pcgrad=[0.9])).startswith("Too few seeds")


def test_the_table_fits_eighty_columns() -> None:
    full = comparison(**{method: [0.50, 0.52, 0.54] for method in METHODS})
    table = rendered(results(full))
    for expected in (*METHODS, "52.0 ± 1.2", "+0.00 ± 0.00", "conflicts", "1.10x"):
        assert expected in table


def test_results_are_written_as_json(both: Comparison, tmp_path: Path) -> None:
    saved = json.loads(both.save(tmp_path / "new").read_text(encoding="utf-8"))
    assert set(saved["outcomes"]) == {"sum", "pcgrad"}
    assert set(saved["outcomes"]["sum"][0]["accuracy"]) == set(cldr.LANGUAGES)
    assert saved["summary"]["pcgrad"]["difference"][1] is None  # no error from one seed
    assert saved["settings"]["steps"] == 3


def test_the_baseline_always_runs_first() -> None:
    assert Settings(methods=("gradvac", "sum", "gradvac")).methods == ("sum", "gradvac")


def test_a_screen_without_a_terminal_prints_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradaccord.demo.screen.LINE_EVERY", 0.0)
    console = Console(file=io.StringIO(), width=80)
    screen = Screen(console)
    latest = {"sum": {"loss": 1.25, "cosine": 0.1, "conflicts": 0.4, "accuracy": float("nan")}}
    with screen.running():
        screen.show(Standing(Settings(steps=200), 1, 40, 75.0, latest))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "seed 2/3  step 40/200  1:15 left  loss: sum 1.250\n"
