"""SWEP: word embeddings multiplied with learned noise that depends on the input, kept near a prior."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from gradaccord.core.checks import finite
from gradaccord.core.losses import Loss, LossFn, read_loss
from gradaccord.core.replay import seeded
from gradaccord.core.temporary_weights import buffers_of, preserved
from gradaccord.methods.regularize.embedding import Place, find_embedding, find_encoder, pretrained
from gradaccord.methods.regularize.extra_pass import check_forward, eager
from gradaccord.methods.regularize.regularizer import Regularizer
from gradaccord.methods.regularize.term_weight import TermWeight, Weight

PRIOR = math.sqrt(0.1 / 0.9)  # the variance of the public code: sqrt(p / (1 - p)) with p = 0.1


class SWEP(nn.Module, Regularizer):
    """SWEP (Lee et al. 2021): learned multiplicative noise on word embeddings.

        (m, log v) = network(h),  h: the encoder's states of the clean pass, without gradient
        z = m + sqrt(v) n,  n ~ N(0, 1);   noisy pass on e * z,   e: word embeddings
        loss = (1 - weight) L(e) + weight L(e * z) + beta KL(N(m, v) | N(1, s^2)),  weight = 1/2

    KL: sum over dimensions, mean over positions that are not padding. The noisy loss trains the model
    and the network [H -> H, ReLU, H -> 2E], which starts at the prior: m = 1, v = s^2. No noise in
    eval mode or under torch.no_grad().

        swep = SWEP(model)                                    # holds the model and the network
        optimizer = AdamW([{"params": model.parameters()},
                           {"params": swep.network.parameters(), "lr": 1e-3}], lr=3e-5)
        method = PCGrad(swep)                                 # so that the network is trained as well
        method.backward({t: swep.loss(partial(forward, model, b)) for t, b in batches.items()})

    Cost: about 2 plain steps; the public code runs the encoder a third time for h. Use it where a
    pretrained model overfits or must work on another domain. Differs from SMART, whose noise is added,
    and searched for on every batch. A compiled model runs uncompiled while noise is on. Under DDP use a
    method (`Sum(swep)` for plain training): DDP alone does not know the network.

    weight: the share of the noisy loss, in [0, 1], or one per task. 0 gives the plain loss bit for
        bit, random stream included.
    beta: weight of the KL.
    prior_variance: s^2.
    start, stop: noise is on while start <= step < stop; `after_step` counts the steps.
    module: the embedding, if it is not found automatically.
    encoder: the module whose output is h, [batch, length, H], as a tensor or first in a tuple.
    hidden_size: H, where the model has no Hugging Face config; by default that of the embedding.
    """

    network: nn.Sequential

    def __init__(
        self,
        model: nn.Module,
        weight: Weight = 0.5,
        *,
        beta: float = 1.0,
        prior_variance: float = PRIOR,
        start: int = 0,
        stop: int | None = None,
        module: str | nn.Module | None = None,
        encoder: str | nn.Module | None = None,
        hidden_size: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}.")
        if not 0 < prior_variance < float("inf"):
            raise ValueError(f"`prior_variance` is {prior_variance}: it must be a finite number > 0.")
        self.weight = TermWeight("weight", weight, start, stop, most=1.0)
        self.beta = finite("beta", beta)
        self.prior_variance = float(prior_variance)
        self.place = find_embedding(model, module)
        # In a Place, and not as modules of this one: they are modules of the model already.
        self.states = Place(find_encoder(model, encoder))
        table = getattr(self.place.module, "weight", None)
        if not isinstance(table, torch.Tensor) or table.ndim != 2:
            raise ValueError(
                f"SWEP multiplies the output of an nn.Embedding; the module to perturb is a "
                f"{type(self.place.module).__name__}: name the word embedding with `module`."
            )
        width = table.shape[1]
        hidden = hidden_size or _hidden_size(model) or width
        self.model = model
        with seeded(0), torch.device("cpu"):  # the same network on every process
            self.network = nn.Sequential(
                nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2 * width)
            )
        last = self.network[2]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.zero_()
            last.bias[:width] = 1.0
            last.bias[width:] = math.log(self.prior_variance)
        self.network.to(device=table.device, dtype=torch.promote_types(table.dtype, torch.float32))
        self.step = 0
        self.skipped = 0  # noisy passes left out because they gave inf or NaN
        self._log: dict[str, torch.Tensor | float] = {}

    def loss(
        self,
        forward: Callable[[], Any],
        loss: Callable[[Any], Loss] | None = None,
        *,
        task: str | None = None,
        mask: torch.Tensor | None = None,
    ) -> LossFn:
        """The regularised loss of a batch, for `method.backward`.

        forward: computes the batch; returns what `loss` takes, or else the loss itself, (loss, outputs)
            or a Hugging Face output with a loss. Called twice.
        task: the name under which weights are looked up and figures are logged.
        mask: true where there is no padding, [batch, length]; by default from the padding token.
        """
        check_forward(forward)
        return partial(self._regularised, forward, loss, task, mask)

    def after_step(self) -> None:
        """Call this after `optimizer.step()`: it counts the steps for `start` and `stop`."""
        self.step += 1

    def to_floats(self) -> dict[str, float]:
        """What was measured last, for any logger: `log(report.to_floats() | swep.to_floats())`."""
        log = {key: float(value) for key, value in self._log.items()}
        return log | {"swep/skipped": float(self.skipped)}

    def get_extra_state(self) -> dict[str, int]:
        """What `state_dict` saves beside the model and the network."""
        return {"step": self.step, "skipped": self.skipped}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Restore what `get_extra_state` returned."""
        self.step, self.skipped = int(state["step"]), int(state["skipped"])

    def training_state(self) -> dict[str, Any]:
        """What a run must save beside the model to continue exactly."""
        log = {key: float(value) for key, value in self._log.items()}  # of tasks seen before
        return {"network": self.network.state_dict(), "extra": self.get_extra_state(), "log": log}

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved training state."""
        self.network.load_state_dict(state["network"])
        self.set_extra_state(state["extra"])
        self._log = dict(state.get("log", {}))

    def _regularised(
        self,
        forward: Callable[[], Any],
        loss_fn: Callable[[Any], Loss] | None,
        task: str | None,
        mask: torch.Tensor | None,
    ) -> Loss:
        weight = self.weight.at(self.step, task)
        if weight == 0 or not self.model.training or not torch.is_grad_enabled():
            return _loss_of(forward(), loss_fn)
        with eager():
            found: list[torch.Tensor] = []
            real: list[torch.Tensor | None] = []
            with (
                self.states.changed(lambda i, h, _: found.append(h.detach())),
                self.place.changed(lambda i, e, r: real.append(r)),
            ):
                plain = _loss_of(forward(), loss_fn)
            if not found or len(found) != len(real):
                raise ValueError(
                    f"The forward callable called the encoder {len(found)} times and the embedding "
                    f"{len(real)} times, and SWEP needs each as often: name them with `encoder` and "
                    "`module`."
                )
            if mask is not None:
                real = [mask.to(h.device, torch.bool) for h in found]
            noise, divergence = self._noise(found, real)

            def multiply(i: int, e: torch.Tensor, _: torch.Tensor | None) -> torch.Tensor:
                return e * noise[i].to(e.dtype)

            with preserved(buffers_of(self.model)), self.place.changed(multiply):
                noisy = _loss_of(forward(), loss_fn)
        suffix = "" if task is None else f"/{task}"
        value, far = _scalar(plain), _scalar(noisy)
        self._log[f"swep/kl{suffix}"] = divergence.detach()
        self._log[f"swep/noisy{suffix}"] = far.detach()
        extra = weight * (far - value) + self.beta * divergence.to(value.device)
        if not bool(torch.isfinite(extra)):
            self.skipped += 1
            return plain
        return (value + extra, plain[1]) if isinstance(plain, tuple) else value + extra

    def _noise(
        self, states: list[torch.Tensor], real: list[torch.Tensor | None]
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """What each call of the embedding is multiplied with, 1 at padding; and the KL to the prior."""
        dtype = next(self.network.parameters()).dtype
        factors, totals, counts = [], [], []
        prior = self.prior_variance
        for h, which in zip(states, real, strict=True):
            if h.ndim != 3 or (which is not None and which.shape != h.shape[:2]):
                given = "" if which is None else f" and the mask {tuple(which.shape)}"
                raise ValueError(
                    f"The encoder's states have the shape {tuple(h.shape)}{given}: they must be "
                    "[batch, length, H], with a mask [batch, length]."
                )
            with torch.autocast(h.device.type, enabled=False):
                mean, log_variance = self.network(h.to(dtype)).chunk(2, -1)
            variance = log_variance.exp()
            z = mean + variance.sqrt() * torch.randn_like(mean)
            kl = 0.5 * (
                (variance + (mean - 1).square()) / prior - 1 - log_variance + math.log(prior)
            ).sum(-1)
            if which is None:
                which = torch.ones_like(kl, dtype=torch.bool)
            factors.append(torch.where(which[..., None], z, 1.0))
            totals.append(kl.masked_fill(~which, 0.0).sum())
            counts.append(which.sum())
        return factors, torch.stack(totals).sum() / torch.stack(counts).sum().clamp_min(1)


def _loss_of(value: Any, loss_fn: Callable[[Any], Loss] | None) -> Loss:
    if loss_fn is not None:
        return loss_fn(value)
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, tuple) and len(value) == 2:  # (loss, items), or a loss and outputs
        return value if isinstance(value[1], int | float) else value[0]
    loss = getattr(value, "loss", None)
    if not isinstance(loss, torch.Tensor):
        raise TypeError(
            "Without `loss`, the forward callable must return the loss, (loss, outputs) or an object "
            f"with .loss, got {type(value).__name__}."
        )
    return loss


def _scalar(loss: Loss) -> torch.Tensor:
    return read_loss("SWEP", loss)[0]


def _hidden_size(model: nn.Module) -> int | None:
    config = getattr(pretrained(model), "config", None)
    size = getattr(config, "hidden_size", None) or getattr(config, "d_model", None)
    return size if isinstance(size, int) else None
