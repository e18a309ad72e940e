"""What pretraining shows, as a line, as a picture and as a table."""

from __future__ import annotations

import io

from rich.console import Console

from gradaccord.cli.pretrain_screen import line, losses_table, picture
from gradaccord.pretrain.results import HeldOut, PretrainProgress, PretrainResults

RESULTS = PretrainResults(
    finished="", model="bert", weights=1, pieces=9, seed=0, steps=7, tokens=700, seconds=2.0,
    texts={f"l{i}": 100 - i for i in range(40)}, left_out={}, memory_mb=1,
    unigrams={f"l{i}": 3.0 for i in range(40)},
    evaluations=[HeldOut(step=7, tokens=700, held_out={f"l{i}": 2.0 for i in range(40)}, train={})],
)  # fmt: skip


def test_the_table_names_the_largest_languages_and_fits_80_columns():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(losses_table(RESULTS))
    text = console.export_text()
    assert "l29" in text
    assert "l30" not in text
    assert "and 10 more, in results.json" in text
    assert "350 a second" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_line_has_pace_and_losses_or_what_is_done():
    last = RESULTS.last
    now = PretrainProgress(50, 100, 65.0, 1234.5, {"de": 2.5, "sw": 3.5}, last)
    assert line(now) == (
        "50%, step 50, 1:05 left; 1,234 tokens/s; loss 3.000 (de 2.50, sw 3.50); "
        "held-out 2.000 (l0 2.00, l39 2.00)"
    )
    now.doing, now.done, now.total = "measuring held-out losses", 1, 4
    assert line(now) == "50%, step 50, 1:05 left; measuring held-out losses, 25%"
    assert line(PretrainProgress(doing="reading de.txt")) == "setting up: reading de.txt"
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(picture(now))
    assert "measuring held-out losses" in console.export_text()
