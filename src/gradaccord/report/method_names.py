"""The table of a page's short names: every method, how it is written, and what it is."""

from __future__ import annotations

from gradaccord.compare.comparison import Comparison
from gradaccord.compare.specs import Spec
from gradaccord.methods.registry import ADDITIONS, METHODS
from gradaccord.report.section import Table, named


def methods_table(comparison: Comparison, names: dict[str, str]) -> Table:
    """Every method: its short name, how it is given to `compare`, and what it is."""
    controls = {own.method: Spec.parse(own.method).controls() for own in comparison.methods}
    rows = [
        [
            named(names[own.method]),
            named(own.method),
            named(_what(own.method, comparison, names, controls)),
        ]
        for own in comparison.methods
    ]
    caption = "A method must beat its control, too: only then is it the idea that helps."
    return Table("methods", "Methods and controls", ["short", "method", "what it is"], rows, caption)


def _what(
    method: str,
    comparison: Comparison,
    names: dict[str, str],
    controls: dict[str, tuple[Spec, ...]],
) -> str:
    spec = Spec.parse(method)
    entry = METHODS.get(spec.method)
    parts = [entry.summary if entry is not None else "one model per task"]
    parts += [f"with {one}: {ADDITIONS[one].summary}" for one in spec.added]
    if method == comparison.baseline.method:
        parts.append("the baseline")
    of = [names[other] for other, own in controls.items() if other != method and spec in own]
    if of:
        parts.append(f"the control of {' and '.join(of)}: the same steps without the idea")
    if spec.rate != 1:
        parts.append(f"learning rates times {spec.rate:g}, as longer steps alone may be what helps")
    return "; ".join(parts)
