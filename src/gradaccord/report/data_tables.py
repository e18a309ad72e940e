"""Tables about the data of each task: splits, classes, an example as the model sees it."""

from __future__ import annotations

from collections.abc import Mapping

from gradaccord.report.section import NONE, Cell, Table, named, number_cell
from gradaccord.tasks.data_card import PERCENTILES, DataCard


def data_tables(cards: Mapping[str, DataCard]) -> list[Table]:
    """The tables of a run's tasks; empty for runs that lack the cards."""
    splits, classes, examples = [], [], []
    for task, card in cards.items():
        for split, own in card.splits.items():
            counts = (own.examples, own.labelled, own.empty, own.repeated, own.contradictions)
            also = ", ".join(f"{count:,} in {other}" for other, count in own.also_in.items() if count)
            splits.append(
                [
                    named(task),
                    named(split),
                    *(Cell(f"{count:,}", float(count)) for count in counts),
                    Cell(also or NONE),
                    *(number_cell(own.lengths.get(p), "{:.0f}") for p in PERCENTILES),
                    number_cell(100 * own.cut, "{:.1f}"),
                ]
            )
            if own.balance:
                classes.append([named(task), named(split), Cell(own.balance)])
        if card.example:
            examples.append([named(task), Cell(card.example), Cell(card.answer or NONE)])
    made = [
        Table(
            "data-splits",
            "Splits",
            ["task", "split", "examples", "labelled", "empty", "repeated", "contradicting", "also",
             *(f"tokens, {p} %" for p in PERCENTILES), "cut, %"],
            splits,
            "Empty: with an empty text. Repeated: the same example occurs earlier; "
            "contradicting: with another label. Also: the same example in another split. Tokens: "
            "percentiles over rows. Cut: texts that are longer than the model reads.",
        ),
        Table("data-classes", "Classes", ["task", "split", "shares"], classes),
        Table(
            "data-examples",
            "One example as the model sees it",
            ["task", "tokens, decoded", "answer"],
            examples,
        ),
    ]  # fmt: skip
    return [table for table in made if table.rows]
