"""Short names of methods for charts and narrow tables, and what each of them is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradaccord.compare.comparison import Comparison
from gradaccord.compare.specs import Spec
from gradaccord.methods.registry import METHODS
from gradaccord.report.section import Table, named

OPTIONS = {"inner_steps": "K", "outer_lr": "eta", "weight": "w"}  # as papers write them


def short_name(method: str) -> str:
    """`sequential_reptile:inner_steps=20,outer_lr=0.3` is `seq. reptile (K 20, eta .3)`."""
    spec = Spec.parse(method)
    options = [f"{OPTIONS.get(key, key.replace('_', ' '))} {_value(v)}" for key, v in spec.options]
    if spec.rate != 1:
        options.append(f"lr x{spec.rate:g}")
    name = spec.method.replace("sequential_", "seq. ").replace("_", " ")
    return " + ".join([f"{name} ({', '.join(options)})" if options else name, *spec.added])


def short_names(methods: Iterable[str]) -> dict[str, str]:
    """Method -> short name; the whole name where two would be called the same."""
    short = {method: short_name(method) for method in methods}
    known = list(short.values())
    return {method: own if known.count(own) == 1 else method for method, own in short.items()}


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
    if method == comparison.baseline.method:
        parts.append("the baseline")
    of = [names[other] for other, own in controls.items() if other != method and spec in own]
    if of:
        parts.append(f"the control of {' and '.join(of)}: the same steps without the idea")
    if spec.rate != 1:
        parts.append(f"learning rates times {spec.rate:g}, as longer steps alone may be what helps")
    return "; ".join(parts)


def _value(value: Any) -> str:
    shown = (
        f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    )
    return shown[1:] if shown.startswith("0.") else shown
