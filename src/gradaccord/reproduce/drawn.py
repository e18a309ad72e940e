"""A figure of the docs pages: its file, its caption, and how it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradaccord.runs.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)  # Okabe and Ito's


@dataclass(frozen=True)
class Drawn:
    """A figure. entry: the one it is shown below; empty: at the top of the page."""

    file: str
    caption: str
    make: Callable[[], Figure]
    entry: str = ""

    @property
    def markdown(self) -> str:
        """The line of Markdown that shows it."""
        return f"![{self.caption}](figures/{self.file})"

    def save(self, path: Path) -> None:
        """Write it as a PNG."""
        figure, metadata = self.make(), {"Software": None}
        write_atomic(path, lambda f: figure.savefig(f, format="png", dpi=100, metadata=metadata))
