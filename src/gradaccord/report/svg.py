"""The parts of SVG charts: a frame with axes, marks that differ in colour and shape, a legend.

Text and lines follow the page's CSS variables, so that a chart is readable in light and dark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 380, 240  # on a phone this is shrunk little, so that text stays readable
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 10, 42
DIGIT = 7.5  # the width of a digit, at most

# Okabe and Ito's colours, told apart by all kinds of colour vision (their yellow darkened, their black
# made grey, to stand out from white and from black). Dashes and shapes say the same without colour.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A7A00", "#808080")
DASHES = ("", "6 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "10 2 2 2")
SHAPES = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "M-3.6,-3.6h7.2v7.2h-7.2z",
    "M0,-4.6L4.3,3.4H-4.3z",
    "M0,-5L5,0L0,5L-5,0z",
    "M0,4.6L4.3,-3.4H-4.3z",
    "M-1.4,-4.5h2.8v3.1h3.1v2.8h-3.1v3.1h-2.8v-3.1h-3.1v-2.8h3.1z",
)


def colour(mark: int) -> str:
    """The colour of the mark-th method."""
    return COLOURS[mark % len(COLOURS)]


def dash(mark: int) -> str:
    """The dashes of the mark-th method's line; where colours repeat, dashes do not."""
    return DASHES[(mark + mark // len(COLOURS)) % len(DASHES)]


def dot(x: float, y: float, mark: int, title: str, scale: float = 1.0) -> str:
    """A small shape with its title as a tooltip."""
    return (
        f'<path d="{SHAPES[mark % len(SHAPES)]}" transform="translate({x:.1f} {y:.1f}) '
        f'scale({scale:g})" fill="{colour(mark)}"><title>{escape(title)}</title></path>'
    )


def line(
    points: Sequence[tuple[float, float]], mark: int, title: str, width: float = 2, solid: bool = False
) -> str:
    """A line through places on the picture; solid: without the method's dashes."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash(mark)}"' if dash(mark) and not solid else ""
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour(mark)}" stroke-width="{width:g}"'
        f"{dashes}><title>{escape(title)}</title></polyline>"
    )


def legend(names: Sequence[tuple[str, int]]) -> str:
    """Names beside samples of their lines."""
    entries = []
    for name, mark in names:
        sample = line([(0, 6), (30, 6)], mark, name) + dot(15, 6, mark, name, 0.9)
        entries.append(
            f'<li><svg width="30" height="12" viewBox="0 0 30 12" aria-hidden="true">{sample}</svg>'
            f"{breakable(name)}</li>"
        )
    return f'<ul class="legend">{"".join(entries)}</ul>'


def breakable(name: str) -> str:
    """A name for HTML; a long one is broken between its options, not within a word."""
    return re.sub(r"(?<=[:,])(?=\S)", "<wbr>", escape(name))


def picture(inside: str, alt: str, height: float = HEIGHT, width: float = WIDTH) -> str:
    """The SVG element. A picture much wider than usual keeps its size, and its box scrolls."""
    wide = width > 1.2 * WIDTH
    classes = ' class="wide"' if wide else ""
    size = f"max-width:{max(width, 560):.0f}px" + (f";min-width:{width:.0f}px" if wide else "")
    return (
        f'<svg role="img"{classes} aria-label="{escape(alt, quote=True)}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" style="{size}">{inside}</svg>'
    )


@dataclass(frozen=True)
class Frame:
    """Maps values to places on the picture."""

    x0: float
    x1: float
    y0: float
    y1: float

    @classmethod
    def around(
        cls, xs: Sequence[float], ys: Sequence[float], *, x_room: float = 0.0, y_room: float = 0.06
    ) -> Frame:
        """The frame of these values, with room on either side, as a share of their range."""
        return cls(*_reach(xs, x_room), *_reach(ys, y_room))

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a value."""
        across = (x - self.x0) / (self.x1 - self.x0)
        up = (y - self.y0) / (self.y1 - self.y0)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def axes(self, x_label: str, y_label: str) -> str:
        """Grid, ticks and labels."""
        parts = []
        for value in ticks(self.y0, self.y1):
            _, y = self.at(self.x0, value)
            kind = "zero" if value == 0 else "grid"
            parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="{kind}"/>'
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="tick end">{number(value)}</text>'
            )
        for value in ticks(self.x0, self.x1):
            shown = number(value)
            x = min(self.at(value, self.y0)[0], WIDTH - DIGIT * len(shown) / 2)  # within the picture
            parts.append(
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" class="tick mid">{shown}</text>'
            )
        middle = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" class="label mid">'
            f'{escape(x_label)}</text><text x="12" y="{middle}" class="label mid" '
            f'transform="rotate(-90 12 {middle})">{escape(y_label)}</text>'
        )
        return "".join(parts)


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers."""
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((m * power for m in (1, 2, 2.5, 5) if m * power >= raw), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def number(value: float) -> str:
    """A number in short, in the same form everywhere."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e9 or size < 1e-3:
        return f"{value:.3g}"
    if size >= 1e6:
        return f"{value / 1e6:.6g}M"
    return f"{value / 1e3:.6g}k" if size >= 1e4 else f"{value:.6g}"


def signed(value: float, form: str = ".2f") -> str:
    """A number with its sign, minus as typeset."""
    return f"{value:+{form}}".replace("-", "−") if value else "0"


def cut(text: str, most: int) -> str:
    """The text, shortened to at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _reach(values: Sequence[float], room: float) -> tuple[float, float]:
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-12):  # all but equal: any width will do
        wide = abs(low) / 2 or 0.5
        return low - wide, high + wide
    return low - room * (high - low), high + room * (high - low)
