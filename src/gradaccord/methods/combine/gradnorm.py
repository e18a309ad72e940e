"""GradNorm: task weights that let all tasks train at the same rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gradaccord.core.checks import finite
from gradaccord.core.parameters import Model
from gradaccord.methods.combine.combination import Combination, Measured

MIN_WEIGHT = 1e-3


class GradNorm(Combination):
    """Gradient normalisation (Chen Z. et al. 2018, "GradNorm").

        n_t = w_t |grad_W L_t|,   r_t = (L_t / L_t(0)) / mean_s(L_s / L_s(0)),   c_t = mean(n) r_t^alpha
        g   = sum_t w_t g_t
        w_t <- w_t - lr sign(n_t - c_t) |grad_W L_t|,  then w_t >= 0.001 and sum_t w_t = T

    W is the last shared layer: the last one, in the model's own order, that all tasks of the step
    reach; or `layer`, the name of a module. The losses must be positive. L_t(0) is the first loss seen,
    or given. Tasks that are absent, or whose gradient is zero, take no part in a step's means; their
    weights stay in the sum over all known tasks. Heads are weighted as well. Cost: T batch gradients, T
    gradients of memory; the norms are read from the stored gradients.

    alpha: pull towards equal rates; 1.5 for dissimilar tasks, 0.12 for similar ones.
    lr: learning rate of the weights w_t.
    layer: the name of the module W.
    initial_losses: L_t(0) by task.
    """

    weighs_groups = False

    def __init__(
        self,
        model: Model,
        *,
        alpha: float = 1.5,
        lr: float = 0.025,
        layer: str | None = None,
        initial_losses: Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        if "granularity" in options:
            raise TypeError(
                "GradNorm weighs whole tasks and takes no `granularity`: name the layer whose "
                "gradient norms it compares with `layer`."
            )
        if options.get("normalize"):
            raise TypeError(
                "GradNorm learns from gradient lengths, which `normalize` makes equal: leave it out."
            )
        if options.get("decide") == "features":
            raise TypeError(
                "GradNorm compares gradient norms in a layer, which `decide='features'` does not "
                "compute: leave it out."
            )
        super().__init__(model, granularity="layer" if layer is None else _split(layer), **options)
        if layer is not None and layer not in self.partition.groups:
            raise ValueError(
                f"`layer` is {layer!r}, but no parameter has that name or prefix; there are "
                f"{', '.join(self.parameters.names[:3])}, ..."
            )
        self.alpha = finite("alpha", alpha)
        self.lr = finite("lr", lr)
        self.layer = layer
        self.weights: dict[str, float] = {}
        self.initial_losses: dict[str, float] = {}
        for task, loss in (initial_losses or {}).items():
            self.initial_losses[task] = _positive(task, float(loss))

    def weigh(self, measured: Measured) -> torch.Tensor:
        weights = self._weights_of(measured)
        self._learn(measured, weights)
        return weights.expand(measured.grams.shape[:2])

    def own_weights(self, measured: Measured) -> torch.Tensor:
        return self._weights_of(measured)

    def _weights_of(self, measured: Measured) -> torch.Tensor:
        weights = [self.weights.get(task, 1.0) for task in measured.tasks]
        return torch.tensor(weights, dtype=torch.float64, device="cpu")

    def _learn(self, measured: Measured, weights: torch.Tensor) -> None:
        losses = [
            _positive(task, loss)
            for task, loss in zip(measured.tasks, measured.losses.tolist(), strict=True)
        ]
        for task, loss in zip(measured.tasks, losses, strict=True):
            self.initial_losses.setdefault(task, loss)
            self.weights.setdefault(task, 1.0)
        active = (~measured.at_rest).nonzero().flatten().tolist()
        if not active:
            return
        tasks = [measured.tasks[i] for i in active]
        lengths = self._squares(measured, active).clamp_min(0).sqrt()
        progress = weights.new_tensor(
            [losses[i] / self.initial_losses[measured.tasks[i]] for i in active]
        )
        norms = weights[active] * lengths
        targets = norms.mean() * (progress / progress.mean()) ** self.alpha
        moved = (weights[active] - self.lr * torch.sign(norms - targets) * lengths).clamp_min(
            MIN_WEIGHT
        )
        self.weights.update(zip(tasks, moved.tolist(), strict=True))
        ratio = len(self.weights) / sum(self.weights.values())
        self.weights = {task: weight * ratio for task, weight in self.weights.items()}

    def _squares(self, measured: Measured, active: list[int]) -> torch.Tensor:
        """The squared gradient norms of these tasks in the layer where they are compared."""
        squares = measured.grams.diagonal(dim1=1, dim2=2)[:, active]  # [G, T]
        reached = (squares > 0).all(1)
        tasks = ", ".join(measured.tasks[i] for i in active)
        if self.layer is not None:
            group = self.partition.groups.index(self.layer)
            if not reached[group]:
                raise ValueError(
                    f"`layer` is {self.layer!r}, which the tasks {tasks} do not share in this step: "
                    "name one that all of them reach."
                )
            return squares[group]
        groups = reached.nonzero().flatten().tolist()
        if not groups:
            raise ValueError(
                f"No layer is reached by all of the step's tasks {tasks}: give `layer`, a module that "
                "all of them reach, or leave out the task that reaches no shared parameter."
            )
        return squares[groups[-1]]

    def _state(self) -> dict[str, Any]:
        return super()._state() | {
            "weights": dict(self.weights),
            "initial_losses": dict(self.initial_losses),
        }

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        self.weights = dict(state["weights"])
        self.initial_losses = dict(state["initial_losses"])


def _split(layer: str) -> Any:
    """A granularity of two groups: the named module and all the rest."""
    return lambda name: layer if name == layer or name.startswith(f"{layer}.") else "the rest"


def _positive(task: str, loss: float) -> float:
    if not loss > 0:
        raise ValueError(
            f"Task {task!r} has the loss {loss:g}: GradNorm compares rates L / L(0), which a loss "
            "that is not positive makes meaningless; shift the loss to be positive."
        )
    return loss
