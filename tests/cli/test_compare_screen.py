"""What a comparison shows: how many runs are done, and failures at once, each only once."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from gradaccord.cli.compare_screen import Screen
from gradaccord.compare.processes import OUTPUT, Progress, Run
from gradaccord.compare.specs import Spec


def test_failures_are_told_at_once_and_once() -> None:
    file = io.StringIO()
    screen = Screen(Console(file=file, width=80))
    config = cast(Any, None)
    runs = [Run(Spec("sum"), seed, Path(f"none-{seed}"), config) for seed in (0, 1)]
    screen.show(Progress(runs, 125.0))
    assert file.getvalue() == "0 of 2 runs, 0%, 2:05 left\n"
    runs[1].failure = "died of [everything]"
    screen.show(Progress(runs, 125.0))
    screen.show(Progress(runs, 125.0))
    assert file.getvalue().splitlines()[1:] == ["sum, seed 1, died of [everything]"]


def test_what_a_run_does_beside_steps_is_shown(tmp_path: Path) -> None:
    """Of the runs that are going, by the last line that each printed."""
    file = io.StringIO()
    screen = Screen(Console(file=file, width=80, force_terminal=True))
    runs = [Run(Spec("sum"), seed, tmp_path / str(seed), cast(Any, None)) for seed in (0, 1)]
    lines = "main 50%, step 9, 1:05 left; now evaluating sst dev, 45%", "main 60%, step 11; loss 1"
    for run, line in zip(runs, lines, strict=True):
        run.folder.mkdir()
        (run.folder / OUTPUT).write_text(f"sst: 10 train.\n{line}\n")
        run.process = cast(Any, object())
    assert [run.now for run in runs] == ["evaluating sst dev, 45%", ""]
    with screen.running():
        screen.show(Progress(runs, 125.0))
        assert "sum, seed 0: 0%, evaluating sst dev, 45%" in file.getvalue()
        assert "2:05 left" in file.getvalue()


def test_while_every_run_saves_that_stands_in_the_place_of_the_time_left(tmp_path: Path) -> None:
    file = io.StringIO()
    run = Run(Spec("sum"), 0, tmp_path, cast(Any, None), process=cast(Any, object()))
    (tmp_path / OUTPUT).write_text("main 50%, step 9, 1:05 left; now saving a checkpoint\n")
    Screen(Console(file=file, width=80)).show(Progress([run], 125.0))
    assert file.getvalue() == "0 of 1 runs, 0%, saving a checkpoint\n"
