"""Which kind of task a file holds, by the names of its columns and by its labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from gradaccord.data.examples import EXAMPLES, Line, Text
from gradaccord.data.files.columns import Columns, Reader, cell_of, text_first
from gradaccord.data.files.dialect import is_number
from gradaccord.data.files.tables import Rows
from gradaccord.data.files.text_files import File

GUESSED = 100  # rows that are looked at for a guess


def kind_of_rows(rows: Rows, file: File, columns: Columns) -> str:
    """The kind of the first training file's rows; an error if nothing tells it."""
    names = rows.names
    known = {str(name).casefold() for name in (*names, *columns)}
    if "paragraphs" in known:  # SQuAD's
        return "question_answering"
    for shape in dict.fromkeys(EXAMPLES.values()):
        signs = all(any(name in known for name in group) for group in shape.signs)
        if shape.signs and signs and shape not in (Text, Line):
            return next(iter(shape.kinds))
    if text_first(columns).keys() <= {*Text.needed, *Text.optional}:
        places = _places(Reader("classification", columns), names)
        if "label" in places:
            with rows.each() as each:
                cells = (cell_of(row, places["label"], file, line) for line, row in each)
                return "regression" if _are_values(cells) else "classification"
    if any(is_number(str(name)) for name in names):  # no header names a column so
        raise ValueError(
            f"{file}: its {len(names)} columns have no names that tell the kind of task: say which is "
            f"which by their numbers from 0, such as columns: {_guess(rows, numbered=True)}."
        )
    raise ValueError(
        f"{file}: the columns ({', '.join(map(str, names))}) do not tell the kind of task: give "
        f"`kind`, or name the columns, such as columns: {_guess(rows)}."
    )


def _guess(rows: Rows, *, numbered: bool = False) -> str:
    """Which columns may hold the text and the label: the longest cells, and the fewest values."""
    with rows.each() as each:
        seen = [row for _, row in islice(each, GUESSED)]
    cells = {name: [str(row.get(name)) for row in seen] for name in rows.names}
    text = max(cells, key=lambda name: sum(map(len, cells[name])), default="TEXT")
    others = {name: len(set(own)) for name, own in cells.items() if name != text}
    label = min(others, key=lambda name: (others[name] < 2, others[name]), default="LABEL")
    if numbered:
        text, label = (str([*cells].index(name)) if name in cells else name for name in (text, label))
    return f"{{text: {text}, label: {label}}}"


def _places(reader: Reader, names: Sequence[str]) -> Mapping[str, list[str]]:
    try:
        return reader.places(names, "", "train")
    except ValueError:
        return {}


def _are_values(cells: Iterable[object]) -> bool:
    """Whether they are numbers, and not all whole ones."""
    whole = True
    try:
        for number in (float(str(cell)) for cell in cells if cell not in (None, "")):
            if not math.isfinite(number):
                return False
            whole = whole and number.is_integer()
    except ValueError:
        return False
    return not whole
