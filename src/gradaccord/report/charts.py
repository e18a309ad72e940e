"""The charts of reports, as inline SVG; pictures in files are drawn by matplotlib.

Unlike embedded pictures, charts follow the page's light or dark theme, every mark has a tooltip,
every chart an alternative text, and a page with sixty of them stays small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from statistics import fmean
from typing import TypeAlias

from gradaccord.report.svg import (
    COLOURS,
    DIGIT,
    WIDTH,
    Frame,
    colour,
    cut,
    dot,
    line,
    number,
    picture,
    signed,
    ticks,
)

FEW = 12  # points of a line that are also marked one by one
CURVE = 4  # points that make a curve; fewer are drawn as dots with their errors
LETTER, LINE = 6.0, 12.0  # pixels that a letter and a line of text take
Place: TypeAlias = tuple[float, float]  # on the picture, in pixels


@dataclass(frozen=True)
class Series:
    """One method's line: points, and how far around them the band reaches."""

    name: str
    mark: int  # which colour, dash and shape
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] = field(default_factory=tuple)

    @property
    def points(self) -> list[tuple[float, float, float]]:
        """The points that are numbers; an unknown error counts as 0."""
        errors = list(self.error) or [0.0] * len(self.y)
        return [
            (x, y, e if math.isfinite(e) else 0.0)
            for x, y, e in zip(self.x, self.y, errors, strict=True)
            if math.isfinite(x) and math.isfinite(y)
        ]


@dataclass(frozen=True)
class Interval:
    """A difference, half of its 95 % interval and the smallest that a test can detect; NaN: unknown."""

    to: str
    mean: float
    half: float
    smallest: float


def forest(rows: Sequence[tuple[str, Sequence[Interval]]], unit: str, alt: str) -> str:
    """Differences with their intervals about a line at zero, each row below its name."""
    ends = [0.0]
    for _, intervals in rows:
        for one in intervals:
            reach = one.half if math.isfinite(one.half) else 0.0
            ends += [one.mean - reach, one.mean + reach]
    if len(ends) == 1:
        return ""
    low, high = min(ends), max(ends)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    high += 1.0 if high == low else 0.0

    def at(value: float) -> float:
        return 8 + (min(max(value, low), high) - low) / (high - low) * (WIDTH - 16)

    parts, said, y = [], [], 0.0
    for name, intervals in rows:
        shown = ", ".join(f"{signed(one.mean)} to {one.to}" for one in intervals)
        parts.append(
            f'<text x="0" y="{y + 14}" class="tick name over">{escape(cut(name, 42))}</text>'
            f'<text x="{WIDTH}" y="{y + 14}" class="tick end over">{escape(shown)}</text>'
        )
        y += 20
        for mark, one in zip((0, 3), intervals, strict=False):
            title = f"{name} to {one.to}: {signed(one.mean)} {unit}"
            if math.isfinite(one.half):
                title += (
                    f", 95 % interval {signed(one.mean - one.half)} to {signed(one.mean + one.half)}"
                )
                left, right = at(-one.smallest), at(one.smallest)
                parts.append(
                    f'<rect x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="14" '
                    f'class="unseen"><title>Differences below {one.smallest:.2f} are hard to detect'
                    "</title></rect>"
                )
                span = [(at(one.mean - one.half), y + 7), (at(one.mean + one.half), y + 7)]
                parts.append(line(span, mark, title, 2.5, solid=True))
            parts.append(dot(at(one.mean), y + 7, mark, title, 1.2))
            said.append(title)
            y += 16
        y += 8
    axis = [f'<line x1="{at(0):.1f}" x2="{at(0):.1f}" y1="0" y2="{y}" class="zero"/>']
    for value in ticks(low, high):
        axis.append(
            f'<text x="{at(value):.1f}" y="{y + 12}" class="tick mid">{signed(value, "g")}</text>'
        )
    return picture("".join(axis + parts), f"{alt} {'; '.join(said)}.", y + 18)


def line_chart(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    alt: str,
    chance: float | None = None,
) -> str:
    """Lines with bands, or dots with error bars if there are few; empty if there is no number.

    chance: what a guess scores, drawn as a line; if it is far off, only its number is shown.
    """
    known = [one for one in series if one.points]
    if not known:
        return ""
    curves = [one for one in known if len(one.points) >= CURVE]
    ys = [v for one in known for _, y, e in one.points for v in (y - e, y + e)]
    near = [chance] if chance is not None and _is_near(chance, ys) else []
    frame = Frame.around(
        [x for one in known for x, _, _ in one.points], [*ys, *near], x_room=0.0 if curves else 0.1
    )
    lines = [[frame.at(x, y) for x, y, _ in one.points] for one in known]
    parts = [frame.axes(x_label, y_label), "" if chance is None else _chance(chance, frame, lines)]
    parts += [_band(one, frame) for one in curves if any(e > 0 for _, _, e in one.points)]
    aside = _aside([one for one in known if one not in curves], frame)
    for one in known:
        places = [frame.at(x, y) for x, y, _ in one.points]
        if one in curves:
            parts.append(line(places, one.mark, one.name))
        for (x, y, e), place in zip(one.points if len(places) <= FEW else (), places, strict=False):
            across = place[0] + aside.get(one.name, 0.0)
            if e > 0 and one not in curves:
                ends = [(across, frame.at(x, v)[1]) for v in (y - e, y + e)]
                parts.append(line(ends, one.mark, "", 1, solid=True))
            title = f"{one.name} at {number(x)}: {_with_error(y, e)}"
            parts.append(dot(across, place[1], one.mark, title))
    ends_said = "; ".join(f"{one.name} {_with_error(*one.points[-1][1:])}" for one in known)
    guess = "" if chance is None else f" Chance: {chance:.4g}."
    return picture("".join(parts), f"{alt} At the end: {ends_said}.{guess}")


def paths(series: Sequence[Series], x_label: str, y_label: str, alt: str) -> str:
    """Where runs went in a plane; the last point of each is larger. Several series may share a name."""
    known = [one for one in series if one.points]
    if not known:
        return ""
    frame = Frame.around(
        [x for one in known for x, _, _ in one.points],
        [y for one in known for _, y, _ in one.points],
        x_room=0.04,
    )
    parts = [frame.axes(x_label, y_label)]
    ends: dict[str, list[tuple[float, float, float]]] = {}
    for one in known:
        places = [frame.at(x, y) for x, y, _ in one.points]
        if len(places) >= CURVE:
            parts.append(f'<g opacity="0.55">{line(places, one.mark, one.name, 1)}</g>')
        for i, ((x, y, _), place) in enumerate(zip(one.points, places, strict=True)):
            last = i == len(places) - 1
            parts.append(dot(*place, one.mark, f"{one.name}: {x:.4g}, {y:.4g}", 1.4 if last else 0.8))
        ends.setdefault(one.name, []).append(one.points[-1])
    said = "; ".join(
        f"{name} {x_label} {fmean(p[0] for p in last):.4g}, {y_label} {fmean(p[1] for p in last):.4g}"
        for name, last in ends.items()
    )
    return picture("".join(parts), f"{alt} At the end: {said}.")


def dots(
    points: Sequence[tuple[float, float, str]],
    best: int,
    x_label: str,
    y_label: str,
    alt: str,
    steps: Sequence[tuple[float, float]] = (),
) -> str:
    """Points with tooltips, the best one larger; steps: a line of stairs beside them.

    Empty for so few or such equal points that a table says more.
    """
    known = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    if len(known) < CURVE or len({x for x, _, _ in known}) < 2:
        return ""
    frame = Frame.around([x for x, _, _ in known], [y for _, y, _ in known], x_room=0.04)
    parts = [frame.axes(x_label, y_label)]
    if len(steps) > 1:
        stairs = [steps[0], *(p for (_, y), (x, z) in pairwise(steps) for p in ((x, y), (x, z)))]
        parts.append(line([frame.at(x, y) for x, y in stairs], 1, "best so far", 1.5))
    for i, (x, y, title) in enumerate(points):
        if (x, y, title) in known:
            parts.append(dot(*frame.at(x, y), 5 if i == best else 0, title, 1.5 if i == best else 0.9))
    return picture("".join(parts), alt)


def bars(values: Sequence[tuple[str, float]], unit: str, alt: str) -> str:
    """Horizontal bars, each below its name, with a line at 1."""
    known = [(name, value) for name, value in values if math.isfinite(value)]
    if not known:
        return ""
    most = max(1.0, *(value for _, value in known))
    row, room = 38, 64
    height = row * len(known) + 6
    one = (WIDTH - room) / most
    parts = [f'<line x1="{one:.1f}" x2="{one:.1f}" y1="0" y2="{height}" class="zero"/>']
    for i, (name, value) in enumerate(known):
        y, length = i * row, max((WIDTH - room) * value / most, 1)
        parts.append(
            f'<text x="0" y="{y + 14}" class="tick over">{escape(cut(name, 60))}</text>'
            f'<rect x="0" y="{y + 19}" width="{length:.1f}" height="14" rx="2" fill="{COLOURS[0]}">'
            f"<title>{escape(name)}: {value:.3g}{unit}</title></rect>"
            f'<text x="{length + 6:.1f}" y="{y + 30}" class="tick over">{value:.2f}{unit}</text>'
        )
    said = "; ".join(f"{name} {value:.2f}{unit}" for name, value in known)
    return picture("".join(parts), f"{alt} {said}.", height)


def heat_map(
    names: Sequence[str],
    matrix: Sequence[Sequence[float | None]],
    alt: str,
    *,
    low: float,
    high: float,
    digits: int = 2,
    axes: tuple[str, str] | None = None,
) -> str:
    """A square of numbers: blue above zero, orange below, the stronger the further off.

    axes: what rows and columns are. The alternative text of a small one has all numbers.
    """
    if not names:
        return ""
    n = len(names)
    room = max(len(_shown(value, digits)) for row in matrix for value in row)
    size = max(26, 6 * room, min(58, 330 // n))
    longest = max(len(cut(name, 14)) for name in names)
    left, top = 14 + 7 * longest, 20 + 5 * longest + (14 if axes else 0)
    width = left + n * size + 4.5 * longest
    parts = []
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            title = f"{names[i]}, {names[j]}"
            parts.append(_cell(left + j * size, top + i * size, size, value, low, high, digits, title))
    for i, name in enumerate(names):
        y, x = top + (i + 0.5) * size + 4, left + (i + 0.5) * size
        shown = escape(cut(name, 14))
        parts.append(
            f'<text x="{left - 6}" y="{y}" class="tick end">{shown}</text>'
            f'<text x="{x}" y="{top - 6}" class="tick" transform="rotate(-45 {x} {top - 6})">'
            f"{shown}</text>"
        )
    if axes:
        parts.append(f'<text x="0" y="11" class="label">{escape(axes[0])} ↓ {escape(axes[1])} →</text>')
    if n <= 6:
        rows = (
            f"{names[i]}: " + ", ".join(f"{names[j]} {_shown(v, digits)}" for j, v in enumerate(row))
            for i, row in enumerate(matrix)
        )
        alt += " " + "; ".join(rows) + "."
    return picture("".join(parts), alt, top + n * size + 6, max(width, WIDTH))


def histogram(edges: Sequence[float], counts: Sequence[int], x_label: str, alt: str) -> str:
    """Counts between edges."""
    if not any(counts):
        return ""
    frame = Frame.around(list(edges), [0.0, float(max(counts))], y_room=0)
    parts = [frame.axes(x_label, "examples")]
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        x0, y0 = frame.at(low, count)
        x1, y1 = frame.at(high, 0)
        parts.append(
            f'<rect x="{x0 + 0.5:.1f}" y="{y0:.1f}" width="{max(x1 - x0 - 1, 0.5):.1f}" '
            f'height="{y1 - y0:.1f}" fill="{COLOURS[0]}">'
            f"<title>{low:.3g} to {high:.3g}: {count}</title></rect>"
        )
    return picture("".join(parts), alt)


def _is_near(value: float, ys: Sequence[float]) -> bool:
    """Whether an axis that includes the value still shows differences."""
    low, high = min(ys), max(ys)
    return low - (high - low) <= value <= high + (high - low)


def _chance(value: float, frame: Frame, lines: Sequence[Sequence[Place]]) -> str:
    """A dashed line where a guess would be, or, if that is outside, its number at the edge.

    lines: the curves; the label is placed where the fewest of them pass.
    """
    shown = f"chance {number(round(value, 1))}"
    at = min(max(value, frame.y0), frame.y1)
    (left, y), (right, top) = frame.at(frame.x0, at), frame.at(frame.x1, frame.y1)
    if at != value:
        shown += " ↓" if value < at else " ↑"
    width = LETTER * len(shown)
    rows = [y - 4] + ([y + LINE] if y + LINE < frame.at(frame.x0, frame.y0)[1] else [])
    rows = [row for row in rows if row - LINE >= top - 8] or rows
    columns = [(right - width * k / 2) for k in range(2, int(2 * (right - left) / width) + 1)]
    crossed = [p for one in lines for p in _along(one)]
    places = [(x, row) for x in columns or [right - width] for row in rows]
    x, row = min(places, key=lambda place: _inside(crossed, place[0], place[1], width))
    words = f'<text x="{x + width:.1f}" y="{row:.1f}" class="label end over">{shown}</text>'
    if at != value:
        return words
    return f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="chance"/>{words}'


def _along(points: Sequence[Place]) -> list[Place]:
    """Places a few pixels apart along a line."""
    found = list(points)
    for (x0, y0), (x1, y1) in pairwise(points):
        count = int(max(abs(x1 - x0), abs(y1 - y0)) / 4)
        found += [(x0 + (x1 - x0) * k / count, y0 + (y1 - y0) * k / count) for k in range(1, count)]
    return found


def _inside(crossed: Sequence[Place], left: float, bottom: float, width: float) -> int:
    """How many places lie in the box of a label."""
    return sum(
        left - 3 <= x <= left + width + 3 and bottom - LINE <= y <= bottom + 3 for x, y in crossed
    )


def _aside(few: Sequence[Series], frame: Frame) -> dict[str, float]:
    """How far each series' dots are shifted sideways, so that none covers another."""
    across = sorted({frame.at(x, frame.y0)[0] for one in few for x, _, _ in one.points})
    gaps = [b - a for a, b in pairwise(across)]
    apart = min((gap for gap in gaps if gap > DIGIT), default=WIDTH / 4)  # below: the same place
    gap = min(7.0, 0.7 * apart / max(len(few), 1))
    return {one.name: (i - (len(few) - 1) / 2) * gap for i, one in enumerate(few)}


def _band(one: Series, frame: Frame) -> str:
    upper = [frame.at(x, y + e) for x, y, e in one.points]
    lower = [frame.at(x, y - e) for x, y, e in reversed(one.points)]
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in upper + lower)
    return f'<polygon points="{outline}" fill="{colour(one.mark)}" opacity="0.18"/>'


def _cell(
    x: float,
    y: float,
    size: float,
    value: float | None,
    low: float,
    high: float,
    digits: int,
    title: str,
) -> str:
    base, strength = _shade(value, low, high)
    shown = _shown(value, digits)
    # Half-strong cells take the page's ink, which suits the mixture with its paper in light and dark.
    ink = "#fff" if strength > 0.8 else "var(--ink)"
    font = min(12.0, size / (0.7 * max(len(shown), 3)))
    return (
        f'<rect x="{x}" y="{y}" width="{size}" height="{size}" fill="{base}" '
        f'fill-opacity="{strength:.2f}" class="cell"><title>{escape(title)}: {shown}</title></rect>'
        f'<text x="{x + size / 2}" y="{y + size / 2 + 4}" class="mid" '
        f'style="font-size:{font:.1f}px;fill:{ink}" aria-hidden="true">{shown}</text>'
    )


def _shade(value: float | None, low: float, high: float) -> tuple[str, float]:
    """Colour of a cell, and how strong it is."""
    if value is None or not math.isfinite(value):
        return "none", 0.0
    reach = high if value >= 0 else -low
    strength = min(abs(value) / reach, 1.0) if reach > 0 else 0.0
    return ("#005AA0" if value >= 0 else "#AA5000"), strength


def _shown(value: float | None, digits: int) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{round(value, digits) or 0.0:.{digits}f}"  # no minus before a zero


def _with_error(value: float, error: float) -> str:
    return f"{value:.4g}" + (f" ± {error:.2g}" if error > 0 else "")
