"""Which methods end trapped on the plane with three optima, at their own and at equal rates."""

from __future__ import annotations

from collections.abc import Sequence

from gradaccord.reproduce.records import RunRecord

METHOD, PLAIN, CONTROL = "Sequential Reptile", "MTL", "Sequential, η = 1"


def answer(records: Sequence[RunRecord]) -> tuple[bool, bool, str]:
    """Whether the method escapes where plain training is trapped at their own rates, whether it does
    so at most of the equal rates at which plain training is trapped, without being trapped at more;
    and both in sentences.

    Shares are means over the records (starts).
    """
    shares = {name: _mean([record.value(name) for record in records]) for name in records[0].tasks}
    own = [name for name in shares if "@" not in name]
    listed = "; ".join(f"{name}: {shares[name]:.0f}" for name in own)
    escapes = shares[METHOD] < shares[PLAIN]
    rates = [name.rpartition(" @ ")[2] for name in shares if name.startswith(f"{METHOD} @ ")]
    ahead = {
        other: [rate for rate in rates if shares[f"{METHOD} @ {rate}"] < shares[f"{other} @ {rate}"]]
        for other in (PLAIN, CONTROL)
    }
    trapping = {other: [r for r in rates if shares[f"{other} @ {r}"] > 0] for other in ahead}
    equal = "; ".join(
        f"than {other} at {len(found)} of the {len(trapping[other])} rates at which that is trapped"
        + (f" ({', '.join(found)})" if found else "")
        for other, found in ahead.items()
    )
    caught = [rate for rate in rates if shares[f"{METHOD} @ {rate}"] > 0]
    mostly = len(ahead[PLAIN]) > len(trapping[PLAIN]) / 2 and len(caught) <= len(trapping[PLAIN])
    return escapes, mostly, (
        f"Runs that end trapped, in %, each method at its own rate (not the same): {listed}. "
        f"At equal rates {METHOD} is trapped less often {equal}."
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
