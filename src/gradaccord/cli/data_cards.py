"""The data card of a task (its splits, classes and an example) on a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gradaccord.tasks.data_card import DataCard

CLASSES = 300  # characters of the list of classes that are shown


def card_table(card: DataCard) -> Group:
    """The splits in a table; below it the classes, an example as the model sees it, and warnings."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("split")
    for heading in ("examples", "labelled", "empty", "repeated", "tokens 50/95/100 %", "cut"):
        table.add_column(heading, justify="right")
    for split, own in card.splits.items():
        lengths = "/".join(str(own.lengths[p]) for p in (50, 95, 100)) if own.lengths else "-"
        labelled = f"{own.labelled:,}"
        counts = (f"{own.examples:,}", labelled, f"{own.empty:,}", f"{own.repeated:,}")
        table.add_row(split, *counts, lengths, f"{own.cut:.1%}")
    lines = []
    for split, own in card.splits.items():
        if own.balance:
            shown = own.balance if len(own.balance) <= CLASSES else f"{own.balance[:CLASSES]}..."
            lines.append(f"classes of {split}: {shown}")
    if card.example:
        lines.append(f"as the model sees it: {card.example}")
    if card.answer:
        lines.append(f"its answer: {card.answer}")
    lines += [f"Warning: {sentence}" for sentence in card.warnings]
    return Group(
        Text(f"{card.task}: {card.kind}", style="bold"), table, *(Text(line) for line in lines)
    )
