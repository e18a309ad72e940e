"""What a run shows: share, time left, losses, conflicts and scores, as a picture and as a line."""

from __future__ import annotations

import io
from dataclasses import replace

from made_results import made_results
from rich.console import Console

from gradaccord.cli.train_screen import Screen, line, picture, results_table
from gradaccord.train.progress import Progress

NOW = Progress(
    step=1234, share=0.5, seconds_left=65, losses={"sst": 0.25, "sts": 1.0}, conflicts=0.125,
    scores={"sst": 91.04}, best=80.5,
)  # fmt: skip


def drawn(what: object) -> str:
    console = Console(file=io.StringIO(), record=True, width=80)
    console.print(what)
    return console.export_text()


def test_a_line_has_all_there_is_to_know() -> None:
    assert line(NOW) == (
        "main 50%, step 1,234, 1:05 left; loss sst 0.250 sts 1.000 · conflicts 12% · "
        "dev sst 91.0 (best average 80.5)"
    )
    assert line(Progress(losses={"sst": 1})) == "main 0%, step 0, ? left; loss sst 1.000"


def test_the_picture_says_the_same() -> None:
    shown = drawn(picture(NOW))
    for part in ("main", "50%", "step 1,234", "1:05 left", "loss sst 0.250", "conflicts 12%"):
        assert part in shown


def test_what_is_done_beside_steps_is_shown_with_its_share() -> None:
    """An evaluation of minutes must not look like a hang."""
    now = replace(NOW, doing="evaluating sst dev", done=450, total=1000)
    assert line(now) == "main 50%, step 1,234, 1:05 left; now evaluating sst dev, 45%"
    assert "step 1,234" in drawn(picture(now))
    assert "evaluating sst dev" in drawn(picture(now))
    assert " 45%" in drawn(picture(now))
    saving = replace(NOW, doing="saving a checkpoint")
    assert line(saving).endswith("; now saving a checkpoint")
    assert "saving a checkpoint" in drawn(picture(saving))
    reading = Progress("setting up", doing="tokenising sst train", done=1, total=4)
    assert line(reading) == "setting up; now tokenising sst train, 25%"
    assert drawn(picture(reading)).split()[:3] == ["tokenising", "sst", "train"]


def test_a_file_says_at_once_that_a_run_saves_and_that_it_has() -> None:
    """A comparison shows the last line, while the share and the time left stand still."""
    file = io.StringIO()
    made = Screen(Console(file=file, width=80))
    made._last -= 2.0  # the last line is two seconds old
    made.show(replace(NOW, doing="saving a checkpoint"))
    assert file.getvalue().endswith("; now saving a checkpoint\n")
    made.show(NOW)
    assert "now saving" not in file.getvalue().splitlines()[-1]
    made.show(replace(NOW, doing="saving the best weights"))  # within a second: nobody would see it
    assert len(file.getvalue().splitlines()) == 2


def test_a_terminal_shows_at_once_that_something_else_is_done() -> None:
    file = io.StringIO()
    made = Screen(Console(file=file, force_terminal=True, width=80))
    with made.running():
        made.show(replace(NOW, doing="saving a checkpoint"))
        assert "saving a checkpoint" in file.getvalue()


def test_the_results_have_the_main_metric_first() -> None:
    results = made_results({"sst": 90.0})
    results.dev["sst"] = {"macro_f1": 80.0, "accuracy": 90.0}
    shown = drawn(results_table(results))
    assert "sst   dev    accuracy 90.00, macro_f1 80.00" in shown


def test_the_results_stand_beside_chance_and_majority() -> None:
    known = {"sst": {"chance": 50.0, "majority": 61.0, "mark": "predicts one class"}}
    results = made_results({"sst": 61.0, "far": 40.0}, trained=["sst"], references=known)
    shown = " ".join(drawn(results_table(results)).split())
    assert "accuracy 61.00 (chance 50.00, majority 61.00; predicts one class)" in shown
    assert "zero-shot average dev 40.00" in shown


def test_a_screen_without_a_terminal_keeps_quiet_at_first() -> None:
    file = io.StringIO()
    Screen(Console(file=file)).show(NOW)
    assert file.getvalue() == ""
