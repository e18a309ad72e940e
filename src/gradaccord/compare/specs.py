"""Methods to compare, parsed from `dotprod:weight=0.2` or `sum+smart`, and the controls of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from gradaccord.compare.budget import EqualBudget
from gradaccord.core.did_you_mean import canonical
from gradaccord.methods.registry import ADDITIONS, canonical_method, check_method, controls_of
from gradaccord.runs.config_files import read_value
from gradaccord.runs.files import folder_name
from gradaccord.train.config import Config, MethodConfig, OptimizerConfig

OPTIONS = {"inner_steps": "K", "outer_lr": "eta", "weight": "w"}  # as papers write them


@dataclass(frozen=True)
class Spec:
    """A method with its options, and what is added to it."""

    method: str
    options: tuple[tuple[str, Any], ...] = ()
    added: tuple[str, ...] = ()  # regularisers, or another optimiser
    rate: float = 1.0  # by which the learning rates are multiplied
    is_control: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Spec:
        """From `name`, `name:option=value,option=value`, `+smart`, `+swep` or `+recadam`, `@1.1`.

        The number after the @ multiplies the learning rates.
        """
        whole, at, factor = text.strip().partition("@")
        first, *added = whole.split("+")
        name, _, given = first.partition(":")
        options = []
        for part in filter(None, re.split(r",(?![^\[]*\])", given)):  # not at commas in brackets
            key, equals, value = part.partition("=")
            if not equals:
                raise ValueError(
                    f"The method {text!r} has the option {part!r} without a value: write {part}=VALUE."
                )
            options.append((key.strip(), read_value(value)))
        name = canonical_method(name)
        added = [canonical(one, ADDITIONS) for one in added]
        for one in added:
            if one not in ADDITIONS:
                raise ValueError(
                    f"The method {text!r} adds {one!r}: only {', '.join(ADDITIONS)} can be added."
                )
        check_method(name, dict(options))
        try:
            rate = float(factor) if at else 1.0
        except ValueError:
            rate = 0.0
        if not rate > 0:
            raise ValueError(
                f"The method {text!r} multiplies the learning rate by {factor!r}: give a number > 0."
            )
        return cls(name, tuple(options), tuple(added), rate)

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options)
        named = "+".join([f"{self.method}:{options}" if options else self.method, *self.added])
        return named if self.rate == 1 else f"{named}@{self.rate:g}"

    def __hash__(self) -> int:
        return hash(str(self))  # options may hold lists

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return folder_name(re.sub(r"[^\w.=+@-]", "_", str(self)))

    @property
    def short(self) -> str:
        """`sequential_reptile:inner_steps=20,outer_lr=0.3` is `seq. reptile (K 20, eta .3)`."""
        options = [f"{OPTIONS.get(key, key.replace('_', ' '))} {_brief(v)}" for key, v in self.options]
        if self.rate != 1:
            options.append(f"lr x{self.rate:g}")
        name = self.method.replace("sequential_", "seq. ").replace("_", " ")
        return " + ".join([f"{name} ({', '.join(options)})" if options else name, *self.added])

    def controls(self) -> tuple[Spec, ...]:
        """All that a method must beat to be called better: each lacks only the method's idea.

        The control of an addition is the method without it; a method's controls are in the registry.
        """
        if self.added:
            return (replace(self, added=(), is_control=True),)
        return tuple(
            Spec(
                control.method,
                tuple(control.options.items()),
                rate=control.rate * self.rate,
                is_control=True,
            )
            for control in controls_of(self.method, dict(self.options))
        )

    def control(self) -> Spec | None:
        """The first control, which takes the same steps."""
        return next(iter(self.controls()), None)

    def config(self, base: Config, seed: int, budget: EqualBudget) -> Config:
        """The configuration of one run, with the budget that all runs have."""
        rates = {"lr": base.train.lr * self.rate}
        if base.train.head_lr is not None:
            rates["head_lr"] = base.train.head_lr * self.rate
        train = budget.given_to(base.train).model_copy(update={"seed": seed, **rates})
        regularize = list(base.regularize)
        for one in self.added:
            if ADDITIONS[one].is_optimizer:
                train = train.model_copy(update={"optimizer": OptimizerConfig(name=one)})
            else:
                regularize.append(type(base).model_validate(_one_term(base, one)).regularize[0])
        method = MethodConfig(name=self.method, **dict(self.options))
        return base.model_copy(update={"train": train, "regularize": regularize, "method": method})


def with_controls(specs: Iterable[Spec], baseline: Spec, controls: bool = True) -> list[Spec]:
    """The baseline, the methods, and each one's controls right before it, nothing twice."""
    wanted = [one for spec in specs for one in (*(spec.controls() if controls else ()), spec)]
    return list(dict.fromkeys([baseline, *wanted]))


def parse_methods(text: str) -> list[Spec]:
    """Split at semicolons; without any, at commas, unless these separate the options of a method."""
    separator = ";" if ";" in text or ":" in text else ","
    found = [Spec.parse(part) for part in text.split(separator) if part.strip()]
    if not found:
        raise ValueError(
            "`--methods` is empty: name at least one; `gradaccord list methods` shows all."
        )
    return found


def short_names(methods: Iterable[str]) -> dict[str, str]:
    """Method -> short name; the whole name where two would be the same."""
    short = {method: Spec.parse(method).short for method in methods}
    known = list(short.values())
    return {method: own if known.count(own) == 1 else method for method, own in short.items()}


def _brief(value: Any) -> str:
    shown = (
        f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    )
    return shown[1:] if shown.startswith("0.") else shown


def _one_term(base: Config, name: str) -> dict[str, Any]:
    return {"tasks": base.tasks, "regularize": [name]}
