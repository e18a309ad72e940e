"""A new figure without any global state; one sentence if matplotlib is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def require_matplotlib() -> None:
    """Raise, with the remedy, if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'The figure needs the package matplotlib: pip install "gradaccord[report]".',
            name="matplotlib",
        ) from error


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches; `figure.savefig(path)` writes the suffix's format."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
