"""From losses to the gradients of the joined batch, whatever the engine and the processes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from gradaccord.core.across import first_one, join, join_shards, same_plan, sum_over
from gradaccord.core.autocast import weights_moved
from gradaccord.core.bank import Bank, Gradient, is_finite
from gradaccord.core.collect import Collector
from gradaccord.core.engine import as_engine
from gradaccord.core.gram import gram
from gradaccord.core.losses import Losses, extras_of, read_losses
from gradaccord.core.parameters import Model, Parameters
from gradaccord.core.sharding import shards_of


class LossNotFiniteError(ValueError):
    """A task's loss is inf or NaN, and no scaler is there to skip the step."""

    def __init__(self, task: str, loss: float) -> None:
        super().__init__(
            f"Task {task!r} has the loss {loss}: `.grad` and the method are as before; "
            "with float16, pass engine=GradScaler() to skip such steps."
        )
        self.task = task


class Gatherer:
    """What every method stands on: it runs the losses and gives a bank, the same on every process."""

    def __init__(self, model: Model, engine: Any = None) -> None:
        if not isinstance(model, nn.Module) and isinstance(model, Iterable):
            model = list(model)
        self.parameters = Parameters.of(model)
        self.engine = as_engine(model, engine)
        self.shards = shards_of(self.parameters.names, self.parameters.tensors)
        self.collector = Collector(self.parameters, self.engine, self.shards)
        self.extras: dict[str, float] = {}  # what wrapped losses have to say of the last run
        self.room: dict[int, torch.Tensor] = {}  # where `displaced` keeps its copies

    def gather(self, losses: Losses) -> tuple[Bank, list[str]]:
        """Every task's gradient of the joined batch; and the tasks in the user's own order."""
        outcome = self.collect(losses)
        order = list(outcome.tasks) if isinstance(outcome, Bank) else []
        bank = self.joined(outcome)
        if isinstance(losses, Mapping):
            order = list(losses)
        return bank, order + [task for task in bank.tasks if task not in order]

    @contextmanager
    def by_rows(self, wanted: bool) -> Iterator[None]:
        """Whether embeddings are stored by rows in a block; alone, it costs a look at all of them."""
        if wanted or self.engine.group is not None:
            yield
            return
        self.collector.parameters = replace(self.parameters, embeddings=frozenset())
        try:
            yield
        finally:
            self.collector.parameters = self.parameters

    def joined(self, outcome: Bank | Exception) -> Bank:
        """The bank of the joined batch from this process's own."""
        if self.engine.group is not None:
            return join(outcome, self.parameters.tensors, self.engine.group)
        assert isinstance(outcome, Bank)
        return outcome if self.shards is None else join_shards(outcome, self.shards)

    def losses(self, bank: Bank) -> torch.Tensor:
        """The tasks' mean losses, [T] in float64 on CPU; one that is not finite is refused."""
        losses = torch.stack([loss.detach().cpu().to(torch.float64) for loss in bank.losses])
        if not self.engine.skips_bad_steps:
            for task, loss in zip(bank.tasks, losses.tolist(), strict=True):
                if not math.isfinite(loss):
                    raise LossNotFiniteError(task, loss)
        return losses

    def products(self, bank: Bank) -> torch.Tensor:
        """The Gram matrix of the tasks' gradients for each parameter, [P, T, T], without loss scale."""
        products = gram(bank.gradients)
        self.agree_on(products)
        factors = torch.tensor(bank.factors, dtype=torch.float64, device="cpu") / self.engine.scale()
        return products * factors[:, None] * factors[None, :]

    def agree_on(self, products: torch.Tensor) -> None:
        """Dot products of all processes' parts, the same everywhere to the last bit."""
        if self.shards is not None:
            for group in self.shards.parts:
                sum_over(products, group, self.shards.device)
            for group in self.shards.copies:
                first_one(products, group, self.shards.device)
        elif self.engine.group is not None:
            first_one(products, self.engine.group, self.parameters.tensors[0].device)

    def finite(self, gradients: Sequence[Gradient | None]) -> bool:
        """Whether these hold neither inf nor NaN; the same answer on every process."""
        found: dict[torch.device, list[torch.Tensor]] = {}
        for gradient in gradients:
            if gradient is not None:
                good = is_finite(gradient)
                found.setdefault(good.device, []).append(good)
        bad = [not bool(torch.stack(good).all()) for good in found.values()]  # one look at each device
        count = torch.tensor([float(sum(bad))], dtype=torch.float64, device="cpu")
        self.agree_on(count)
        return not bool(count)

    def collect(self, losses: Losses) -> Bank | Exception:
        """This process's own bank; under DDP an exception is kept until the others know of it."""
        weights_moved()  # the user's optimiser may have stepped in this very autocast region
        try:
            self._check_parameters()
            try:
                batches = read_losses(losses)
            except Exception as error:
                if self.shards is not None:
                    same_plan(error, self.shards)
                raise
            bank = self.collector.collect(batches)
            self.extras = extras_of(batches)
            return bank
        except Exception as error:
            if self.engine.group is None:
                raise
            return error

    def _check_parameters(self) -> None:
        """Raise if the model has trainable parameters that were not there when the method was built."""
        if self.engine.model is None or self.shards is not None:  # FSDP2 swaps them by itself
            return
        known = {id(tensor) for tensor in self.parameters.tensors}  # not kept: a copy has others
        for name, parameter in self.engine.model.named_parameters():
            if parameter.requires_grad and id(parameter) not in known:
                raise ValueError(
                    f"Parameter {name!r} is not one of those that the method was built with: build the "
                    "method after replacing or adding parameters."
                )
