"""A table of words and numbers: as text for a terminal, and as Markdown for a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradaccord.runs.escape import table_head, table_row

WIDTH = 80
NONE = "–"  # in a cell without a number
GAP = "  "


@dataclass(frozen=True)
class Grid:
    """The first column names the rows and is repeated where a table is too wide for one block."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def text(self, width: int = WIDTH) -> list[str]:
        """Lines of at most `width` characters, as far as the cells allow it."""
        lines = [self.title] if self.title else []
        for block in self._blocks(width):
            lines += _aligned([[row[i] for i in block] for row in (self.headings, *self.rows)])
        return [*lines, *textwrap.wrap(self.note, width)]

    def markdown(self) -> list[str]:
        """A pipe table below its title."""
        lines = [f"**{self.title}**", ""] if self.title else []
        lines += table_head(*map(_cell, self.headings))
        lines += [table_row(map(_cell, row)) for row in self.rows]
        return [*lines, *(["", self.note] if self.note else [])]

    def _blocks(self, width: int) -> Iterator[list[int]]:
        widths = [max(len(row[i]) for row in (self.headings, *self.rows)) for i in range(self._count)]
        block, used = [0], widths[0]
        for i in range(1, self._count):
            needed = widths[i] + len(GAP)
            if len(block) > 1 and used + needed > width:
                yield block
                block, used = [0], widths[0]
            block.append(i)
            used += needed
        yield block

    @property
    def _count(self) -> int:
        return len(self.headings)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
