"""Published hyper-parameters of few-shot code bases, each with its source and the scale of its loss.

    settings = settings_for("maml", preset="maml-omniglot-5way", shots=1)

Inner rates are given for a loss that is a MEAN over the support set. Finn's code sums over the ways, so
its 0.4 is 2.0 here. Iteration counts are the published ones: hours to days on a processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradaccord.core.did_you_mean import nearest

MEAN = "mean over examples, as published"


@dataclass(frozen=True)
class Preset:
    """One published set. settings: fields of `FewShotSettings`. loss_scale: what was converted."""

    name: str
    algorithm: str
    source: str
    loss_scale: str
    settings: dict[str, Any]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Those that it is for: Finn et al. trained FOMAML with the settings of MAML."""
        return ("maml", "fomaml") if self.algorithm == "maml" else (self.algorithm,)


def _reptile(name: str, note: str, **settings: Any) -> Preset:
    common = {
        "optimizer": "sgd", "outer_lr": 1.0, "schedule": "linear", "tasks": 5, "evaluation_steps": 50,
        "inner_batch": 10, "evaluation_batch": 5, "queries": 1, "test_queries": 1, "network": "reptile",
    }  # fmt: skip
    source = f"Nichol et al. 2018, openai/supervised-reptile, {note}"
    return Preset(name, "reptile", source, MEAN, common | settings)


def _maml(name: str, note: str, finn_rate: float, ways: int, **settings: Any) -> Preset:
    rate = round(finn_rate * ways, 6)
    scale = (
        f"sum over the {ways} ways as published (rate {finn_rate:g}); mean here: "
        f"{finn_rate:g} x {ways} = {rate:g}"
    )
    common = {"ways": ways, "inner_lr": rate, "network": "maml", "outer_lr": 1e-3}
    return Preset(name, "maml", f"Finn et al. 2017, cbfinn/maml, {note}", scale, common | settings)


def _mamlpp(name: str, note: str, **settings: Any) -> Preset:
    common = {
        "inner_steps": 5, "epoch": 500, "iterations": 50_000, "network": "maml++",
        "validate_every": 500,
    }  # fmt: skip
    source = f"Antoniou et al. 2019, AntreasAntoniou/HowToTrainYourMAMLPytorch, {note}"
    return Preset(name, "maml++", source, MEAN, common | settings)


def _sharing() -> list[Preset]:
    """Chang & Lipson 2020: 5 steps at 0.1, Adam 1e-3, 15 queries, epochs of 1,000 iterations.

    Both sets, CUB (150 epochs) and mini-ImageNet (250); 5 tasks a batch or 1 (5 x the epochs).
    """
    common = {
        "share": True, "inner_lr": 0.1, "inner_steps": 5, "outer_lr": 1e-3, "queries": 15,
        "test_queries": 15, "network": "maml++", "filters": 48, "epoch": 1000,
        "validate_every": 1000, "validation_tasks": 600,
    }  # fmt: skip
    return [
        Preset(
            f"sharing-{short}-{algorithm}-{tasks}task{'s' if tasks > 1 else ''}",
            algorithm,
            f"Chang & Lipson 2020, {data}, {tasks} task{'s' if tasks > 1 else ''} a batch",
            MEAN,
            common | {"tasks": tasks, "iterations": 1000 * epochs * (5 // tasks), "data": data},
        )
        for algorithm in ("maml", "meta-sgd", "maml++")
        for short, data, epochs in (("cub", "cub200", 150), ("mini", "miniimagenet", 250))
        for tasks in (5, 1)
    ]


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in [
        _reptile(
            "reptile-omniglot-5way", "Omniglot 5-way", data="omniglot", ways=5, inner_lr=1e-3,
            inner_steps=5, train_shots=10, iterations=100_000,
        ),
        _reptile(
            "reptile-omniglot-20way", "Omniglot 20-way", data="omniglot", ways=20, inner_lr=5e-4,
            inner_steps=10, inner_batch=20, evaluation_batch=10, train_shots=10,
            iterations=200_000,
        ),
        _reptile(
            "reptile-miniimagenet-1shot", "mini-ImageNet 5-way 1-shot", data="miniimagenet",
            inner_lr=1e-3, inner_steps=8, train_shots=15, iterations=100_000,
        ),
        _reptile(
            "reptile-miniimagenet-5shot", "mini-ImageNet 5-way 5-shot", data="miniimagenet",
            inner_lr=1e-3, inner_steps=8, train_shots=15, evaluation_batch=15, iterations=100_000,
        ),
        _maml(
            "maml-omniglot-5way", "Omniglot 5-way 1-shot", 0.4, 5, data="omniglot", inner_steps=1,
            evaluation_steps=10, queries=1, tasks=32, iterations=40_000,
        ),
        _maml(
            "maml-omniglot-20way", "Omniglot 20-way 1-shot", 0.1, 20, data="omniglot",
            inner_steps=5, evaluation_steps=10, queries=1, tasks=16, iterations=40_000,
        ),
        _maml(
            "maml-miniimagenet", "mini-ImageNet 5-way", 0.01, 5, data="miniimagenet",
            inner_steps=5, evaluation_steps=10, queries=15, tasks=4, filters=32,
            iterations=60_000,
        ),
        _mamlpp(
            "mamlpp-omniglot", "Omniglot, 64 filters", data="omniglot", inner_lr=0.1, tasks=8,
            queries=1, filters=64, multi_step_epochs=10, schedule="cosine",
        ),
        _mamlpp(
            "mamlpp-miniimagenet", "mini-ImageNet, 48 filters", data="miniimagenet",
            inner_lr=0.01, tasks=2, queries=15, filters=48, multi_step_epochs=15, clip=10.0,
        ),
        *_sharing(),
    ]
}  # fmt: skip


def find_preset(name: str) -> Preset:
    """A preset by its name."""
    if name not in PRESETS:
        raise ValueError(f"There is no preset {name!r}: {nearest(name, PRESETS, 'choose one of')}")
    return PRESETS[name]
