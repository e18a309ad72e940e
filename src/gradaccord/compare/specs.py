"""What is compared: `dotprod:weight=0.2`, `sum+smart`, and the controls that each needs beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from gradaccord.core.did_you_mean import canonical
from gradaccord.methods.registry import SINGLE_TASK, canonical_method, check_method, find_method
from gradaccord.train.config import Config, Method, Optimizer
from gradaccord.train.regularizers import REGULARIZERS

HIGHER = 1.1  # learning rate of DotProd's second control


@dataclass(frozen=True)
class Spec:
    """A method with its options, and what is added to it."""

    method: str
    options: tuple[tuple[str, Any], ...] = ()
    added: tuple[str, ...] = ()  # regularisers, or recadam
    rate: float = 1.0  # by which the learning rates are multiplied
    is_control: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Spec:
        """From `name`, `name:option=value,option=value`, `+smart`, `+swep` or `+recadam`, `@1.1`.

        The number behind the @ multiplies the learning rates.
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
        known = (*REGULARIZERS, "recadam")
        added = [canonical(one, known) for one in added]
        for one in added:
            if one not in known:
                raise ValueError(
                    f"The method {text!r} adds {one!r}: what can be added is {', '.join(known)}."
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
        """The name as a folder's."""
        return re.sub(r"[^\w.=+@-]", "_", str(self))

    def controls(self) -> tuple[Spec, ...]:
        """All that a method must beat to be called better.

        To `control` comes, for DotProd, the same at a slightly higher learning rate: its term also
        lengthens the step, and a longer step alone may be what helps.
        """
        first = self.control()
        if first is None:
            return ()
        if self.method == "dotprod" and not self.added:
            return first, replace(first, rate=HIGHER * self.rate)
        return (first,)

    def control(self) -> Spec | None:
        """The run that differs by the idea alone: same steps, same feed, same additions."""
        if self.added:
            return replace(self, added=(), is_control=True)
        if self.method == SINGLE_TASK:
            return None
        options = dict(self.options)
        if self.method in ("sequential_reptile", "reptile"):
            if options.get("outer_lr") == 1:
                return None
            options["outer_lr"] = 1
            return Spec(self.method, tuple(options.items()), rate=self.rate, is_control=True)
        control = find_method(self.method).control
        if control is None:
            return None
        known = find_method(control).known_options()
        kept = tuple((k, v) for k, v in self.options if k in known) if control != "sum" else ()
        return Spec(control, kept, rate=self.rate, is_control=True)

    def config(self, base: Config, seed: int, gradients: int) -> Config:
        """The configuration of one run, with the budget that all runs have."""
        rates = {"lr": base.train.lr * self.rate}
        if base.train.head_lr is not None:
            rates["head_lr"] = base.train.head_lr * self.rate
        train = base.train.model_copy(
            update={"seed": seed, "gradients": gradients, "epochs": None, "steps": None, **rates}
        )
        regularize = list(base.regularize)
        for one in self.added:
            if one == "recadam":
                train = train.model_copy(update={"optimizer": Optimizer(name="recadam")})
            else:
                regularize.append(type(base).model_validate(_one_term(base, one)).regularize[0])
        method = Method(name=self.method, **dict(self.options))
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


def _one_term(base: Config, name: str) -> dict[str, Any]:
    return {"tasks": base.tasks, "regularize": [name]}


def read_value(text: str) -> Any:
    """An option's value as YAML reads it, and 1e-5, which YAML takes for text, as a number."""
    import yaml

    value = yaml.safe_load(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
