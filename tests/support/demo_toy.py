"""A demo with these scores, without a run."""

from __future__ import annotations

from pathlib import Path

from made_results import made_results

from gradaccord.compare.budget import EqualBudget
from gradaccord.compare.processes import Run
from gradaccord.compare.specs import Spec, with_controls
from gradaccord.compare.summary import summarise
from gradaccord.showcase.demo.names import Names, recipe
from gradaccord.showcase.demo.settings import DemoSettings

BUDGET = EqualBudget(kind="gradients", amount=100)


METHOD = "sequential_reptile:inner_steps=20,outer_lr=0.3"


CONTROL = "sequential_reptile:inner_steps=20,outer_lr=1"


def run_of(spec: Spec, seed: int, score: float, unseen: float, masked: float) -> Run:
    """A finished run with these figures: `de` is trained on, `fr` is not."""
    scores = {"de": score, "fr": unseen}
    results = made_results(
        scores,
        test=scores,
        trained=["de"],
        seed=seed,
        train_loss=0.5 if masked < 2.5 else 0.1,
        masked_lm={"de": masked, "fr": masked},
    )
    return Run(spec, seed, Path(), spec.config(recipe(DemoSettings(Path())), seed, BUDGET), results)


def names(scores: dict[str, list[float]], masked: dict[str, float] | None = None) -> Names:
    specs = with_controls([Spec.parse(METHOD)], Spec.parse("sum"))
    runs = [
        run_of(
            spec,
            seed,
            score,
            40.0 + seed + 0.01 * i * (seed - 1),
            (masked or {}).get(str(spec), 2.5) + (0.01 + 0.001 * i) * seed,
        )
        for i, spec in enumerate(specs)
        for seed, score in enumerate(scores[str(spec)])
    ]
    return Names(summarise(runs), runs, ("de",), {"de": 2.0, "fr": 2.0})
