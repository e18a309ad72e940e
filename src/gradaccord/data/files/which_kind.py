"""Which kind of task a file holds, by the names of its columns and by its labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gradaccord.data.examples import EXAMPLES, Line, Text
from gradaccord.data.files.columns import Columns, Reader, cell_of
from gradaccord.data.files.tables import Row
from gradaccord.data.files.text_files import File, at


def kind_of_rows(rows: Sequence[Row], file: File, columns: Columns) -> str:
    """The kind of the first training file's rows; an error if nothing tells it."""
    names = [*rows[0][1]] if rows else []
    known = {str(name).casefold() for name in (*names, *columns)}
    if "paragraphs" in known:  # SQuAD's
        return "question_answering"
    for shape in dict.fromkeys(EXAMPLES.values()):
        signs = all(any(name in known for name in group) for group in shape.signs)
        if shape.signs and signs and shape not in (Text, Line):
            return next(iter(shape.kinds))
    if columns.keys() <= {*Text.needed, *Text.optional}:
        places = _places(Reader("classification", columns), names)
        if "label" in places:
            cells = [cell_of(row, places["label"], at(file, line)) for line, row in rows]
            return "regression" if _are_values(cells) else "classification"
    raise ValueError(
        f"{file}: the columns ({', '.join(map(str, names))}) do not tell the kind of task: give "
        "`kind`, such as kind: classification, or name the columns."
    )


def _places(reader: Reader, names: Sequence[str]) -> Mapping[str, list[str]]:
    try:
        return reader.places(names, "", "train")
    except ValueError:
        return {}


def _are_values(cells: Sequence[object]) -> bool:
    """Whether they are numbers, and not all whole ones."""
    try:
        numbers = [float(str(cell)) for cell in cells if cell not in (None, "")]
    except ValueError:
        return False
    return all(map(math.isfinite, numbers)) and not all(number.is_integer() for number in numbers)
