"""What a comparison shows: how many runs are done, and failures at once, each only once."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from gradaccord.cli.compare_screen import Screen
from gradaccord.compare.processes import Progress, Run
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
