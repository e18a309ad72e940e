"""MAML++: MAML with learned rates, per-step batch norm, multi-step loss and order annealing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from gradaccord.core.checks import one_of, whole_number
from gradaccord.core.parameters import unwrapped
from gradaccord.meta.learners.maml import MAML
from gradaccord.meta.learners.named_tensors import NamedTensors
from gradaccord.meta.network.general import Params
from gradaccord.meta.network.step_norms import StepNorms, affine_names

LEAST_SHARE = 0.03  # of 1/K: the least weight of an earlier step while several count


class MAMLPlusPlus(MAML):
    """MAML++ (Antoniou et al. 2018, "How to train your MAML").

        theta_k = theta_{k-1} - alpha_k * grad L_support(theta_{k-1})    alpha: one per tensor and step
        g = d mean_t sum_k w_k L_query(theta_k) / d (phi, alpha, norms)

    The weights w start at 1/K each and move to the last step alone over `multi_step_epochs`. Each batch
    norm has a separate scale and shift for every step, learned outside the inner loop (the model's
    single ones get no gradient); the query after step k uses those of step k. Steps beyond K use the
    last rates and norms. Cost as `MAML`, and K - 1 more query passes a task at first.

    inner_lr: where all rates start (the authors: 0.1 for Omniglot, 0.01 for miniImageNet).
    epoch_length: meta-iterations of an epoch, in which the schedules count.
    multi_step_epochs: from this epoch on only the last step's query loss counts; 0: from the start.
    second_order_from: first order before this epoch; 0 as in the authors' settings.
    per_step_norm: False: one scale and shift for all steps, adapted like other weights.
    statistics: "batch": norms use the statistics of each batch, as the authors' code does (it tracks
        running ones without using them). "running": running ones are tracked by step, and a query at
        test is normalised by them alone, not by the support set or other queries; needs norms with
        track_running_stats=True, and runs on the general network.
    Others as in `MAML`. The authors clamp outer gradients to 10 on ImageNet sets:
    `torch.nn.utils.clip_grad_value_(learner.parameters(), 10)`.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        inner_lr: float = 0.1,
        epoch_length: int = 500,
        multi_step_epochs: int = 15,
        second_order_from: int = 0,
        per_step_norm: bool = True,
        statistics: str = "batch",
        adapted: Callable[[str], bool] | None = None,
        **options: Any,
    ) -> None:
        one_of("statistics", statistics, ("batch", "running"))
        running = statistics == "running"
        if running and not per_step_norm:
            raise ValueError("`statistics` is 'running', by step: it needs per_step_norm=True.")
        known = isinstance(model, nn.Module) and per_step_norm
        outside = set(affine_names(unwrapped(model))) if known else set()
        super().__init__(
            model,
            inner_lr=inner_lr,
            adapted=lambda name: name not in outside and (adapted is None or adapted(name)),
            **(options | {"fast": options.get("fast", True) and not running}),
        )
        self.in_parts = self.in_parts and not running
        self.differentiates_twice = True  # the rates' gradient runs through the inner steps
        self.epoch_length = whole_number("epoch_length", epoch_length)
        self.multi_step_epochs = whole_number("multi_step_epochs", multi_step_epochs, least=0)
        self.second_order_from = whole_number("second_order_from", second_order_from, least=0)
        self.norms = StepNorms(self.model, self.inner_steps, running) if per_step_norm else None
        if self.norms is not None and running:
            self.functional.wrap = self.norms.moved_by
        params = self.functional.parameters()
        self.rates = NamedTensors()
        for name in self.adapted:
            rates = params[name].detach().new_full((self.inner_steps,), self.inner_lr)
            self.rates.add(name, nn.Parameter(rates))

    @property
    def epoch(self) -> int:
        """How many epochs of meta-updates are done."""
        return int(self.iteration) // self.epoch_length

    def rates_at(self, step: int) -> list[torch.Tensor]:
        """See `MAML`."""
        step = min(step, self.inner_steps - 1)
        return [self.rates[name][step] for name in self.adapted]

    def at_step(self, step: int) -> dict[str, torch.Tensor]:
        """See `MAML`."""
        params = super().at_step(step)
        return params if self.norms is None else params | self.norms.at_step(step)

    def query_weights(self) -> list[float]:
        """See `MAML`."""
        return multi_step_weights(self.inner_steps, self.epoch, self.multi_step_epochs)

    @property
    def second_order(self) -> bool:
        """See `MAML`."""
        return not self.first_order and self.epoch >= self.second_order_from

    # Running statistics by step.

    def statistics(self, visited: list[tuple[int, Params]]) -> dict[str, list[Any]]:
        """See `MAML`."""
        return {} if self.norms is None else {"statistics": self.norms.moved(visited)}

    def keep(self, kept: Mapping[str, list[Any]]) -> None:
        """See `MetaLearner`."""
        super().keep(kept)
        if self.norms is not None and self.norms.tracks:
            self.norms.keep(kept["statistics"], self.group)

    @contextmanager
    def training_mode(self) -> Iterator[None]:
        """See `MetaLearner`."""
        with super().training_mode(), self._norm_mode(training=True):
            yield

    def prediction_mode(self, transductive: bool) -> AbstractContextManager[None]:
        """See `MetaLearner`."""
        return nullcontext() if transductive else self._norm_mode(training=False)

    def _norm_mode(self, training: bool) -> AbstractContextManager[None]:
        tracks = self.norms is not None and self.norms.tracks
        return self.norms.mode(self.model, training) if self.norms and tracks else nullcontext()


def multi_step_weights(steps: int, epoch: int, epochs: int) -> list[float]:
    """The weight of the query loss after each step: equal at first, in the end all on the last."""
    if epoch >= epochs:
        return [0.0] * (steps - 1) + [1.0]
    least = LEAST_SHARE / steps
    earlier = max(1 / steps - epoch / (steps * epochs), least)
    final = min(1 / steps + epoch * (steps - 1) / (steps * epochs), 1 - (steps - 1) * least)
    return [earlier] * (steps - 1) + [final]
