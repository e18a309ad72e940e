"""Published sets in JSON lines, one example per line, read by their columns like your own files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gradaccord.data.files.columns import Reader
from gradaccord.data.files.layouts import Layout, Wanted, count_lines
from gradaccord.data.files.text_files import File


@dataclass(frozen=True)
class JsonLines:
    """A reader of such files; call it with a file and what is wanted.

    columns: of the fields of `kind` whose column has no usual name (`files/columns.py`).
    """

    kind: str
    columns: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, file: File, wanted: Wanted) -> list[Any]:
        """All examples."""
        return self.examples(file.json_lines(), file, wanted)

    def examples(
        self, rows: Iterable[tuple[int, dict[str, Any]]], file: File, wanted: Wanted
    ) -> list[Any]:
        """Those of some lines."""
        rows = list(rows)
        made = Reader(self.kind, self.columns, wanted.labels).examples(rows, file, wanted)
        ids = (id_of(row, wanted, line) for line, row in rows)
        return [replace(example, id=id) for example, id in zip(made, ids, strict=True)]

    def layout(self, pattern: str, **more: Any) -> Layout:
        """Files of a name, read so."""
        return Layout(pattern, self, count_lines, **more)


def id_of(row: Mapping[str, Any], wanted: Wanted, line: int) -> str:
    """The row's own, or the split and the number of the line from 0."""
    return str(row.get("id", row.get("idx", f"{wanted.split}-{line - 1}")))
