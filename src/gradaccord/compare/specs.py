"""What is compared: `dotprod:weight=0.2`, `sum+smart`, and the control that each needs beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from gradaccord.train.config import Config, Method, Optimizer
from gradaccord.train.methods import SINGLE_TASK, find_method
from gradaccord.train.regularizing import REGULARIZERS


@dataclass(frozen=True)
class Spec:
    """A method with its options, and what is added to it."""

    method: str
    options: tuple[tuple[str, Any], ...] = ()
    added: tuple[str, ...] = ()  # regularisers, or recadam
    is_control: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Spec:
        """From `name`, `name:option=value,option=value`, and `+smart`, `+swep` or `+recadam` after."""
        first, *added = text.strip().split("+")
        name, _, given = first.partition(":")
        options = []
        for part in filter(None, given.split(",")):
            key, equals, value = part.partition("=")
            if not equals:
                raise ValueError(
                    f"The method {text!r} has the option {part!r} without a value: write {part}=VALUE."
                )
            options.append((key.strip(), _value(value)))
        known = (*REGULARIZERS, "recadam")
        for one in added:
            if one not in known:
                raise ValueError(
                    f"The method {text!r} adds {one!r}: what can be added is {', '.join(known)}."
                )
        if name != SINGLE_TASK:
            find_method(name).check(dict(options))
        return cls(name, tuple(options), tuple(added))

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options)
        return "+".join([f"{self.method}:{options}" if options else self.method, *self.added])

    @property
    def folder(self) -> str:
        """The name as a folder's."""
        return re.sub(r"[^\w.=+-]", "_", str(self))

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
            return Spec(self.method, tuple(options.items()), is_control=True)
        control = find_method(self.method).control
        if control is None:
            return None
        known = find_method(control).known_options()
        kept = tuple((k, v) for k, v in self.options if k in known) if control != "sum" else ()
        return Spec(control, kept, is_control=True)

    def config(self, base: Config, seed: int, gradients: int) -> Config:
        """The configuration of one run, with the budget that all runs have."""
        train = base.train.model_copy(
            update={"seed": seed, "gradients": gradients, "epochs": None, "steps": None}
        )
        regularize = list(base.regularize)
        for one in self.added:
            if one == "recadam":
                train = train.model_copy(update={"optimizer": Optimizer(name="recadam")})
            else:
                regularize.append(type(base).model_validate(_one_term(base, one)).regularize[0])
        method = Method(name=self.method, **dict(self.options))
        return base.model_copy(update={"train": train, "regularize": regularize, "method": method})


def with_controls(specs: Iterable[Spec], baseline: Spec) -> list[Spec]:
    """The baseline, the methods, and each one's control right before it, nothing twice."""
    found: list[Spec] = [baseline]
    for spec in specs:
        control = spec.control()
        for one in (control, spec):
            if one is not None and one not in found:
                found.append(one)
    return found


def _one_term(base: Config, name: str) -> dict[str, Any]:
    return {"tasks": base.tasks, "regularize": [name]}


def _value(text: str) -> Any:
    import yaml

    value = yaml.safe_load(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
