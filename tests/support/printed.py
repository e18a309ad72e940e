"""What rich prints on a terminal of 80 columns."""

from __future__ import annotations

import io

from rich.console import Console


def printed(*what: object) -> str:
    console = Console(file=io.StringIO(), record=True, width=80)
    for each in what:
        console.print(each)
    return console.export_text()
