"""Any scalarizer of TorchJD by name: one number from all losses, whose derivatives are the weights."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from gradaccord.core.checks import finite
from gradaccord.core.did_you_mean import canonical, nearest
from gradaccord.core.options import check_options, options_of
from gradaccord.core.parameters import Model
from gradaccord.core.replay import seeded
from gradaccord.methods.combine.torchjd_weightings import as_tensor, lists_for_tensors
from gradaccord.methods.weigh.loss_weighting import LossWeighting

# These are told when an epoch or a step is over, which a scalarizer alone cannot know.
OWN = {"DWA": "dwa", "FAMO": "famo"}
LEARNING_RATE = 0.025


class TorchJDLoss(LossWeighting):
    """One number from all losses, by a `torchjd.scalarization` scalarizer.

        min over theta of  s(L_1, ..., L_T),    w_t = ds / dL_t

    `TorchJDLoss(model, "GeometricMean")`, `TorchJDLoss(model, "PBI", theta=1.0, weights=[1, 2])`. One
    that learns a number for each task (IMTLL, UW) takes plain gradient steps on them. Options with one
    value per task follow the order of `tasks` (by name if not given), and then all tasks must be in
    every step. For DWA and FAMO, which are refused here, use the methods of these names. Random draws
    come from the method's own generator. Cost: see `LossWeighting`.

    scalarizer: a name, with its options as further arguments; lists become tensors.
    lr: learning rate of the numbers that it learns, 0.025 by default.
    tasks: the tasks in order.
    """

    def __init__(
        self,
        model: Model,
        scalarizer: str = "GeometricMean",
        *,
        lr: float | None = None,
        tasks: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        general = inspect.signature(LossWeighting).parameters
        self.given = {k: as_tensor(options.pop(k)) for k in list(options) if k not in general}
        super().__init__(model, **options)
        if isinstance(tasks, str):
            raise TypeError(f"`tasks` is {tasks!r}: give a list of names.")
        self.name = known_scalarizer(scalarizer)
        check_options(f"The scalarizer {self.name!r}", self.given, scalarizer_options(self.name))
        learns = "shape" in inspect.signature(_classes()[self.name]).parameters
        if lr is not None and not learns:
            raise ValueError(
                f"`lr` is {lr}, and the scalarizer {self.name} learns nothing: leave it out."
            )
        self.lr = finite("lr", LEARNING_RATE if lr is None else lr)
        self.positional = learns or any(isinstance(v, torch.Tensor) for v in self.given.values())
        self.tasks: list[str] = []
        self.module: Any = None  # made when the tasks are known
        if tasks is not None or not self.positional:
            self._make(list(tasks or ()))

    def weigh(self, losses: dict[str, float]) -> dict[str, float]:
        if self.module is None:
            self._make(list(losses))
        order = self.tasks if self.positional else list(losses)
        if set(order) != set(losses):
            raise ValueError(
                f"The step has the tasks {', '.join(losses)}, and the scalarizer {self.name} values "
                f"for {', '.join(order)}: give these in every step."
            )
        values = torch.tensor([losses[task] for task in order], dtype=torch.float64, device="cpu")
        values.requires_grad_()
        learned = list(self.module.parameters())
        seed = int(torch.randint(2**62, (), generator=self.generator, device="cpu"))
        try:
            with seeded(seed), torch.device("cpu"), torch.enable_grad():
                slopes = torch.autograd.grad(self.module(values), [values, *learned])
        except ValueError as error:
            raise self._not_defined(losses) from error
        if not bool(torch.isfinite(slopes[0]).all()):
            raise self._not_defined(losses)
        with torch.no_grad():
            for parameter, slope in zip(learned, slopes[1:], strict=True):
                parameter.sub_(slope, alpha=self.lr)
        return dict(zip(order, slopes[0].tolist(), strict=True))

    def _not_defined(self, losses: dict[str, float]) -> ValueError:
        shown = ", ".join(f"{loss:g} ({task})" for task, loss in losses.items())
        return ValueError(
            f"The scalarizer {self.name} has no slope at the losses {shown}: shift them to be positive "
            "or use another scalarizer."
        )

    def _make(self, tasks: list[str]) -> None:
        cls = _classes()[self.name]
        own = dict(self.given)
        for option, value in own.items():
            if isinstance(value, torch.Tensor) and len(value) != len(tasks):
                raise ValueError(
                    f"`{option}` has {len(value)} values, and there are {len(tasks)} tasks "
                    f"({', '.join(tasks)}): give one for each."
                )
        if "shape" in inspect.signature(cls).parameters:
            own["shape"] = len(tasks)
        try:
            self.module = cls(**own).to("cpu", torch.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"The scalarizer {self.name!r} cannot be made: {error}") from error
        self.tasks = tasks

    def _state(self) -> dict[str, Any]:
        learned = [] if self.module is None else [p.detach().clone() for p in self.module.parameters()]
        return super()._state() | {"tasks": list(self.tasks), "learned": learned}

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        if state["tasks"] != self.tasks:
            self.tasks, self.module = [], None  # as before the first step
            if state["tasks"]:
                self._make(list(state["tasks"]))
        learned = [] if self.module is None else list(self.module.parameters())
        with torch.no_grad():
            for parameter, value in zip(learned, state["learned"], strict=True):
                parameter.copy_(value)


def known_scalarizer(name: str) -> str:
    """The name as TorchJD writes it; one that does not exist, or does not fit, is refused."""
    found = canonical(str(name), _classes())
    if found in OWN:
        raise ValueError(
            f"`scalarizer` is {found}, which needs to know epochs or steps: use "
            f"the method {OWN[found]!r}."
        )
    usable = [known for known in _classes() if known not in OWN]
    if found not in usable:
        raise ValueError(
            f"`scalarizer` is {name!r}, which TorchJD does not have: {nearest(str(name), usable)}"
        )
    return found


def scalarizer_options(name: str) -> Mapping[str, inspect.Parameter]:
    """The options of the scalarizer with this name; the number of tasks is known."""
    return lists_for_tensors(options_of(_classes()[known_scalarizer(name)], hidden=("shape",)))


def _classes() -> dict[str, Any]:
    try:
        from torchjd import scalarization
    except ImportError as error:
        raise ModuleNotFoundError(
            'TorchJD is not installed: pip install "gradaccord[torchjd]".', name="torchjd"
        ) from error
    names = [name for name in scalarization.__all__ if name != "Scalarizer"]
    return {name: getattr(scalarization, name) for name in names}
