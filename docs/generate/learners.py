"""The generated parts of the few-shot learners' pages: docstrings, settings, presets, recorded runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from parts import options_table, table, update_of

from gradaccord import meta
from gradaccord.core.options import options_of
from gradaccord.meta.algorithms import ALGORITHMS, SHARE
from gradaccord.meta.build import build_learner
from gradaccord.meta.presets import PRESETS
from gradaccord.meta.records import read_records
from gradaccord.meta.settings import settings_for
from gradaccord.models.trunks.conv4 import Conv4
from gradaccord.report.fewshot_results import results_table
from gradaccord.reproduce.differences import current_records
from gradaccord.reproduce.entry import all_entries
from gradaccord.reproduce.speed_up import speed_up_tables
from gradaccord.reproduce.verdict import command

RECORDS = Path(__file__).parents[2] / "results" / "fewshot"
SHARING = "gradient-sharing-table-1"


@dataclass(frozen=True)
class Learner:
    """A page: the class that it is about, and its names on the command line."""

    title: str
    class_name: str
    algorithms: tuple[str, ...]
    share: bool = False

    @property
    def made(self) -> Any:
        """The class."""
        return getattr(meta, self.class_name)

    @property
    def labels(self) -> dict[str, str]:
        """Options of the command by the name that a run's record has."""
        extra, option = ("+sharing", " --share") if self.share else ("", "")
        return {f"{name}{extra}": f"--algorithm {name}{option}" for name in self.algorithms}


LEARNERS = {
    "maml": Learner("MAML", "MAML", ("maml",)),
    "fomaml": Learner("FOMAML", "FOMAML", ("fomaml",)),
    "meta_sgd": Learner("Meta-SGD", "MetaSGD", ("meta-sgd",)),
    "mamlpp": Learner("MAML++", "MAMLPlusPlus", ("maml++",)),
    "sharing": Learner("Gradient sharing", "GradientSharing", SHARE, share=True),
    "reptile": Learner("Reptile", "Reptile", ("reptile",)),
    "dotprod": Learner("DotProd", "DotProd", ("dotprod-inner", "dotprod-outer")),
}


def navigation(pages: list[Path]) -> list[Any]:
    """The overview, then the learners in their order here."""
    known = {path.stem: f"learners/{path.name}" for path in pages}
    return [known[name] for name in ("index", *LEARNERS) if name in known]


def part(argument: str) -> str:
    """`<!-- learner: update maml -->` and the like."""
    what, _, name = argument.partition(" ")
    return PARTS[what](LEARNERS[name])


def _update(learner: Learner) -> str:
    return update_of(learner.made)


def _cost(learner: Learner) -> str:
    """How it is called, and what an update takes with the settings that the command starts from."""
    link = f"Class: [`gradaccord.meta.{learner.class_name}`][gradaccord.meta.{learner.class_name}]."
    found = [_counted(name, learner.share) for name in learner.algorithms]
    rows = [
        ("Tasks per update", *(str(one.tasks) for one in found)),
        ("Inner steps", *(str(one.steps) for one in found)),
        ("Batch gradients per update", *(str(one.gradients) for one in found)),
        ("Weights of Conv-4, 5 ways", *(f"{one.weights:,}" for one in found)),
        ("Numbers learned beside them", *(f"{one.more:,}" for one in found)),
    ]
    head = (f"`fewshot train {option}`" for option in learner.labels.values())
    return f"{link}\n\n{table(('', *head), rows)}"


@dataclass(frozen=True)
class Counted:
    """What an update was seen to spend."""

    tasks: int
    steps: int
    gradients: int
    weights: int
    more: int


@cache
def _counted(algorithm: str, share: bool) -> Counted:
    """One update, on random pictures, with the settings of the command."""
    settings = settings_for(algorithm, share=share)
    shots = settings.train_shots or settings.shots
    tasks = meta.TaskBatch(*_random(settings, shots), *_random(settings, settings.queries))
    small = build_learner(settings, Conv4.reptile_omniglot(settings.ways, filters=4))
    model = Conv4.reptile_omniglot(settings.ways)
    weights, all_of_it = map(_size, (model, build_learner(settings, model)))
    return Counted(
        settings.tasks,
        settings.inner_steps,
        small.backward(tasks).gradients,
        weights,
        all_of_it - weights,
    )


def _size(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _random(settings: Any, shots: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(settings.ways).repeat(settings.tasks, shots)
    return torch.randn(*labels.shape, 1, 28, 28), labels


def _options(learner: Learner) -> str:
    """Those of the class, its own first; gradient sharing is one option of others."""
    if learner.share:
        return f"`share=True` on {_named(learner)}. It has no options of its own."
    hidden = ("model",) if _can_share(learner) else ("model", "share", "first_order", "recompute")
    found, common = options_of(learner.made, hidden), options_of(meta.MetaLearner, hidden)
    own = {name: option for name, option in found.items() if name not in common}
    return options_table(learner.made, own | found)


def _can_share(learner: Learner) -> bool:
    return {*learner.algorithms} <= {*SHARE}


def _named(learner: Learner) -> str:
    others = (one for one in LEARNERS.values() if one is not learner and _can_share(one))
    return ", ".join(f"`{one.class_name}`" for one in others)


def _settings(learner: Learner) -> str:
    """What the command starts from, and published settings."""
    starts: dict[str, list[str]] = {}
    for name in learner.algorithms:
        values = ", ".join(f"`{key}={value}`" for key, value in ALGORITHMS[name].start.items())
        starts.setdefault(values, []).append(f"`{name}`")
    lines = [f"Command defaults for {', '.join(who)}: {values}." for values, who in starts.items()]
    presets = [
        (f"`{preset.name}`", preset.source, preset.loss_scale)
        for preset in PRESETS.values()
        if preset.algorithm in learner.algorithms
        and preset.settings.get("share", False) == learner.share
    ]
    shown = table(("`--preset`", "From", "Loss"), presets) if presets else "No published settings."
    return "\n\n".join([*lines, shown])


def _measured(learner: Learner) -> str:
    """The runs of `results/fewshot`, and for gradient sharing those of its entry."""
    records = [one for one in read_records(RECORDS) if one.settings.label in learner.labels]
    found = [*(_speed_ups() if learner.share else ())]
    if records:
        link = "[recorded results](../fewshot.md#recorded-results)"
        found.append(f"From the {link}, `gradaccord fewshot record`:\n\n{results_table(records)}")
    return "\n\n".join(found) or "Not measured yet: `results/` has no run of this learner."


def _speed_ups() -> Iterator[str]:
    """How much faster runs with gradient sharing were than those without, from `results/`."""
    entry = all_entries()[SHARING]
    grids = [*speed_up_tables(entry.design("small"), current_records(entry, RECORDS.parent))]
    if grids:
        link = f"[results](../results.md#{SHARING})"
        yield f"From the {link}, `{command(entry)}`:"
    for grid in grids:
        yield "\n".join(grid.markdown())


PARTS = {
    "update": _update,
    "cost": _cost,
    "options": _options,
    "settings": _settings,
    "measured": _measured,
}


def overview(_: str) -> str:
    """A table of all learners."""
    rows = [
        (f"[{learner.title}]({name}.md)", _phrase(learner), _gradients(learner))
        for name, learner in LEARNERS.items()
    ]
    return table(("Learner", "What it does", "Batch gradients per task"), rows)


def _phrase(learner: Learner) -> str:
    """What the first line of its file says."""
    return (sys.modules[learner.made.__module__].__doc__ or "").partition("\n")[0].partition(": ")[2]


def _gradients(learner: Learner) -> str:
    counts = {_counted(name, learner.share): name for name in learner.algorithms}
    return "; ".join(f"{one.gradients / one.tasks:g} ({name})" for one, name in counts.items())
