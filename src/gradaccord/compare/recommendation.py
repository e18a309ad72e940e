"""Which methods are worth comparing on measured tasks, and why; every reason has its number."""

from __future__ import annotations

from dataclasses import dataclass

from gradaccord.methods.registry import BASELINE, METHODS, SINGLE_TASK
from gradaccord.probe.conflict import Conflict, OneTask, PairOfTasks

# A projection takes at most this share off a gradient; a weaker conflict needs no method.
SMALL_CONFLICT = 0.05
# Beside a gradient of twice the length a task has a cosine of 0.45 at most with the sum of both,
# if they are orthogonal.
LONG = 2.0
RULED_OUT = 0.3  # a conflict that must be ruled out before plain training is recommended
NORMALIZED = f"{BASELINE}:normalize=True"


@dataclass(frozen=True)
class Recommendation:
    """methods: worth comparing with plain training; none where that is enough."""

    methods: tuple[str, ...]
    reasons: tuple[str, ...]


def why(method: str) -> str:
    """What a recommended method does: its summary, or words for the two that have none."""
    if method == SINGLE_TASK:
        return "one model for each: whether sharing helps at all"
    if method == NORMALIZED:
        return "all gradients at one length, and nothing else"
    return METHODS[method].summary


def conflicts(pair: PairOfTasks) -> bool:
    """Whether two tasks conflict beyond noise, and enough for a method to help."""
    return pair.cosine.high < 0 and pair.cosine.value <= -SMALL_CONFLICT


def suffers(task: OneTask) -> bool:
    """Whether a plain step raises this task's loss, beyond noise."""
    return task.step.high < 0


def recommend(found: Conflict) -> Recommendation:
    """What to compare, by conflict, then by lengths of gradients."""
    if len(found.tasks) == 1:
        alone = tuple(name for name, entry in METHODS.items() if entry.one_task)
        return Recommendation(alone, (_alone(found.tasks[0]),))
    if not found.shared:
        why = f"None of the {found.trained:,} trained parameters is shared: nothing can conflict"
        return Recommendation((), (f"{why}, and plain training is enough.",))
    in_conflict = [pair for pair in found.pairs if conflicts(pair)]
    uneven = found.ratio.low > LONG
    reasons = (*_about_pairs(found, in_conflict), *_about_steps(found), _about_lengths(found, uneven))
    if in_conflict:
        return Recommendation(("pcgrad", "config", NORMALIZED if uneven else SINGLE_TASK), reasons)
    if uneven:
        return Recommendation((NORMALIZED, "loss_scale", "uncertainty"), reasons)
    return Recommendation((), (*reasons, _plain(found)))


def _alone(task: OneTask) -> str:
    return (
        f"One task, {task.name}: there is no other task to conflict with. Two of its batches have a "
        f"cosine of {task.batches.cosine:.2f} on average, {task.batches.apart:.0%} of the pairs below "
        "0. You can try the methods for one task, at their cost."
    )


def _plain(found: Conflict) -> str:
    if all(pair.cosine.low > -RULED_OUT for pair in found.pairs):
        return f"Nothing here calls for a gradient method: plain training (`{BASELINE}`) is enough."
    return (
        f"Nothing found calls for a gradient method: begin with plain training (`{BASELINE}`). "
        f"To rule out conflicts of -{RULED_OUT} and below, measure longer, with --seconds."
    )


def _about_pairs(found: Conflict, in_conflict: list[PairOfTasks]) -> tuple[str, ...]:
    unknown = [task.name for task in found.tasks if not task.length > 0]
    known = [pair for pair in found.pairs if pair.cosine.known]
    sentences = [
        f"{pair.first} and {pair.second} conflict: cosine {pair.cosine}." for pair in in_conflict
    ]
    if not in_conflict and known:
        lowest = min(known, key=lambda pair: pair.cosine.value)
        possible = min(pair.cosine.low for pair in known)
        sentences.append(
            f"No pair of tasks conflicts beyond noise: the lowest cosine is {lowest.cosine} "
            f"({lowest.first}, {lowest.second})"
            + (f"; at 95 %, none is below {possible:.2f}." if -1 < possible < 0 else ".")
        )
    if len(known) < len(found.pairs):
        which = f" ({', '.join(unknown)})" if unknown else ""
        sentences.append(
            f"Nothing can be said of {len(found.pairs) - len(known)} of {len(found.pairs)} pairs: in "
            f"{found.batches} batches a gradient{which} does not stand out from the noise."
        )
    between = _mean([pair.batches.apart for pair in found.pairs])
    within = _mean([task.batches.apart for task in found.tasks])
    sentences.append(
        f"Two single batches of different tasks have a cosine below 0 in {between:.0%} of all cases; "
        f"two of one task, where only noise differs, in {within:.0%}."
    )
    return tuple(sentences)


def _about_steps(found: Conflict) -> tuple[str, ...]:
    known = [task for task in found.tasks if task.step.known]
    if not known:
        return ()
    worst = min(known, key=lambda task: task.step.value)
    if suffers(worst):
        return (f"A plain step raises the loss of {worst.name}: cosine {worst.step} with it.",)
    if len(known) == len(found.tasks) and all(task.step.low > 0 for task in known):
        return (f"A plain step lowers every loss; least that of {worst.name}: cosine {worst.step}.",)
    return ()


def _about_lengths(found: Conflict, uneven: bool) -> str:
    losses = [task.loss for task in found.tasks]
    spread = f"losses go from {min(losses):.2f} to {max(losses):.2f}"
    if not found.ratio.known:
        return f"How the gradients' lengths differ is lost in noise; {spread}."
    said = f"The gradient of {found.longest} is {found.ratio} times as long as that of {found.shortest}"
    if uneven:
        said += f": over {LONG:g} times, so it decides the step"
    elif found.ratio.high > LONG:
        said += f", not clearly more than {LONG:g} times"
    return f"{said}; {spread}."


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
