"""SMART: a loss plus how far a small adversarial change of the input moves the model's outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import nn

from gradaccord.core.checks import whole_number
from gradaccord.core.losses import Loss, LossFn
from gradaccord.core.replay import RandomState
from gradaccord.methods.regularize.divergence import (
    KINDS,
    Outputs,
    divergence,
    per_example,
    read_outputs,
)
from gradaccord.methods.regularize.embedding import Side, find_embedding
from gradaccord.methods.regularize.extra_pass import check_forward, eager, extra_pass
from gradaccord.methods.regularize.noise import Ball, Norm, Variant, cosine
from gradaccord.methods.regularize.regularizer import Regularizer
from gradaccord.methods.regularize.teacher import Momentum, Teacher
from gradaccord.methods.regularize.term_weight import TermWeight, Weight, is_on

Mask: TypeAlias = torch.Tensor | Sequence[torch.Tensor] | None


@dataclass(frozen=True)
class Probe:
    """How adversarial the noise is."""

    divergence: float  # under the noise of the adversary
    random: float  # under random noise of equal size
    cosine: float  # between the final and the initial noise: 1 means that nothing was ascended

    @property
    def ratio(self) -> float:
        """How many times as far as random noise the adversary moves the outputs."""
        return self.divergence / self.random if self.random > 0 else math.inf


@dataclass(frozen=True)
class _Batch:
    """What `loss` was given for one batch."""

    forward: Callable[[], Any]
    loss: Callable[[Any], Loss] | None
    kind: str
    task: str | None
    mask: Mask
    counted: torch.Tensor | None

    def read(self, value: Any) -> tuple[Loss, Any]:
        """The loss and the outputs of what the forward callable returned."""
        if self.loss is not None:
            return self.loss(value), value
        if isinstance(value, tuple) and len(value) == 2:
            return value
        loss = getattr(value, "loss", None)
        if not isinstance(loss, torch.Tensor):
            raise TypeError(
                "Without `loss`, the forward callable must return (loss, outputs) or an object with "
                f".loss and .logits, got {type(value).__name__}."
            )
        return loss, value

    def outputs(self) -> Outputs:
        return read_outputs(self.kind, self.read(self.forward())[1])


@dataclass
class _Clean:
    """The plain pass over a batch, and what it showed at each call of the embedding."""

    batch: _Batch
    random: RandomState  # from before the pass
    inputs: list[torch.Tensor] = field(default_factory=list)
    real: list[torch.Tensor | None] = field(default_factory=list)  # shaped to multiply the input
    loss: Any = None
    outputs: Outputs = ()
    counted: torch.Tensor | None = None

    def divergence(self, outputs: Outputs) -> torch.Tensor:
        return divergence(self.batch.kind, outputs, self.outputs, self.counted)


class SMART(Regularizer):
    """SMART (Jiang et al. 2020): smoothness against adversarial noise, and a slow teacher.

        d <- N(0, sigma^2);  g = gradient of l(f(x + d), f(x)) in d;  d <- P(d + eta g / |g|)
        loss = L + weight l(f(x + d), f(x)) + bregman l(f(x), f~(x))
        l: symmetric KL or squared difference (`kind`); x: embeddings; f~: moving-average teacher

    P projects onto |d| <= epsilon, eta = 100 epsilon, g is normalised per sentence, the gradient goes
    through both sides of the first l, and all passes use the dropout masks of the clean one. It wraps a
    loss, so it works with every method:

        smart = SMART(model, weight=1.0)
        losses = {t: smart.loss(partial(model, **b), task=t) for t, b in batches.items()}
        report = method.backward(losses); optimizer.step(); smart.after_step()

    Cost: about 2.7 plain steps with one ascent step (3.0 with the teacher, which keeps one copy of
    the weights), and twice the activations. Use it where a pretrained model overfits a small task.
    A compiled model runs uncompiled while the term is on: compiled code does not see the noise. The
    embedding itself must not lie inside an activation checkpoint, which would recompute it clean; and
    checkpoints of layers must have use_reentrant=False.

    weight: lambda_s, or one per task. 0 gives the plain loss bit for bit, random stream included.
    epsilon: "relative": 0.05 of the mean |embedding| of the batch; or a number.
    ascent_steps: K; each adds a forward and half a backward pass.
    norm: "inf": |d| <= epsilon in every coordinate; "l2": of a sentence, epsilon as root mean square.
    variant: "paper"; or "public", the noise of namisan/mt-dnn and archinetai/smart-pytorch, for
        comparison: d <- (d + 1e-3 g) / (|d + 1e-3 g|_inf + 1e-6) per token, with g not normalised. As
        g is tiny, this is random noise of size 1 (cosine to the initial noise above 0.999), and
        `epsilon`, `norm` are not used.
    bregman: mu, the weight of the teacher's term; 0: no teacher. One number or one per task.
    momentum: the teacher's beta, or a function of the step: `teacher.paper_momentum(total_steps)`.
    start, stop: the terms are on while start <= step < stop; `after_step` counts the steps.
    module, side: the module whose output (or "input", e.g. for images) is perturbed. By default the
        word embedding of a Hugging Face model, or the only embedding there is.
    probe_every: steps between two measurements of how adversarial the noise is (one more forward pass
        each); 0: never.
    """

    compares_outputs = True
    network = None  # it trains nothing of its own

    def __init__(
        self,
        model: nn.Module,
        weight: Weight = 1.0,
        *,
        epsilon: float | Literal["relative"] = "relative",
        ascent_steps: int = 1,
        norm: Norm = "inf",
        variant: Variant = "paper",
        bregman: Weight = 0.0,
        momentum: Momentum = 0.99,
        start: int = 0,
        stop: int | None = None,
        module: str | nn.Module | None = None,
        side: Side = "output",
        probe_every: int = 100,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}.")
        self.model = model
        self.weight = TermWeight("weight", weight, start, stop)
        self.bregman = TermWeight("bregman", bregman, start, stop)
        self.ball = Ball(epsilon, norm, variant)
        self.ascent_steps = whole_number("ascent_steps", ascent_steps)
        self.probe_every = whole_number("probe_every", probe_every, least=0)
        self.place = find_embedding(model, module, side)
        self.teacher = Teacher(model, momentum) if is_on(bregman) else None
        self.step = 0
        self.skipped = 0  # terms left out because they were inf or NaN
        self._log: dict[str, Any] = {}

    def loss(
        self,
        forward: Callable[[], Any],
        loss: Callable[[Any], Loss] | None = None,
        *,
        kind: str = "classification",
        task: str | None = None,
        mask: Mask = None,
        counted: torch.Tensor | None = None,
    ) -> LossFn:
        """The regularised loss of a batch, for `method.backward`.

        forward: computes the batch; returns outputs if `loss` is given, else (loss, outputs) or a
            Hugging Face output with a loss. Called three times.
        loss: the loss as a function of what `forward` returns; may return (mean, number of items).
        kind: "classification", "binary", "tokens", "span" or "regression", see `divergence`.
        task: the name under which weights are looked up and figures are logged.
        mask: true where there is no padding, as an attention mask [batch, length], or a list if the
            embedding is called several times. By default from the padding token.
        counted: true at the positions of the output that count, for "tokens" and "span". By default
            the mask, where input and output have the same positions (not in an encoder-decoder:
            give labels != -100).
        Under torch.no_grad() the plain loss is returned.
        """
        check_forward(forward)
        if kind not in KINDS:
            raise ValueError(f"`kind` is {kind!r}: use one of {', '.join(map(repr, KINDS))}.")
        made: Any = partial(self._regularised, _Batch(forward, loss, kind, task, mask, counted))
        made.extras = self._counted  # what the step's report says of this loss
        return made  # type: ignore[no-any-return]

    def _counted(self) -> dict[str, float]:
        return {"smart/skipped": float(self.skipped)}

    def after_step(self) -> None:
        """Call this after `optimizer.step()`: it updates the teacher and counts the step."""
        if self.teacher is not None:
            self.teacher.update(self.step)
        self.step += 1

    def probe(self, forward: Callable[[], Any], **options: Any) -> Probe:
        """Measure how adversarial the noise is on a batch, given as to `loss`; changes nothing."""
        made: Any = self.loss(forward, **options)
        (batch,) = made.args
        random = RandomState.capture(self.model.parameters())
        with eager(), extra_pass(self.model, random), torch.no_grad():
            clean = self._clean(batch)
            initial, final = self._noise(clean)
            far = clean.divergence(self._perturbed(clean, final))
            return Probe(float(far), float(self._random(clean, final)), float(cosine(initial, final)))

    def to_floats(self) -> dict[str, float]:
        """What was measured last, for any logger: `log(report.to_floats() | smart.to_floats())`."""
        log = {key: float(value) for key, value in self._log.items()}
        return log | {"smart/skipped": float(self.skipped)}

    def state_dict(self) -> dict[str, Any]:
        """All that a run must save to continue exactly."""
        teacher = None if self.teacher is None else self.teacher.state_dict()
        log = {key: float(value) for key, value in self._log.items()}  # measured now and then
        return {"step": self.step, "skipped": self.skipped, "teacher": teacher, "log": log}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state, also in a fresh instance."""
        if (state["teacher"] is None) != (self.teacher is None):
            raise ValueError(
                "The state was saved with a teacher and this SMART has none, or the reverse: give the "
                "same `bregman` as in the saved run."
            )
        if self.teacher is not None:
            self.teacher.load_state_dict(state["teacher"])
        self.step, self.skipped = int(state["step"]), int(state["skipped"])
        self._log = dict(state.get("log", {}))

    training_state, load_training_state = state_dict, load_state_dict

    def _regularised(self, batch: _Batch) -> Loss:
        weight = self.weight.at(self.step, batch.task)
        bregman = self.bregman.at(self.step, batch.task)
        if not torch.is_grad_enabled() or (weight == 0 and bregman == 0):
            return batch.read(batch.forward())[0]
        terms = {}
        with eager():
            taught: Outputs = ()
            if bregman and self.teacher is not None:
                random = RandomState.capture(self.model.parameters())
                with extra_pass(self.model, random), self.teacher.in_place():
                    taught = batch.outputs()
            clean = self._clean(batch)
            if taught:
                terms["bregman"] = bregman, clean.divergence(taught)
            if weight:
                terms["divergence"] = weight, self._adversarial(clean)
        loss = clean.loss
        for name, (factor, term) in terms.items():
            self._log[self._key(name, batch)] = term.detach()
            if bool(torch.isfinite(term)):
                loss = _plus(loss, factor * term)
            else:
                self.skipped += 1
        return loss  # type: ignore[no-any-return]

    def _clean(self, batch: _Batch) -> _Clean:
        clean = _Clean(batch, RandomState.capture(self.model.parameters()))

        def look(i: int, x: torch.Tensor, real: torch.Tensor | None) -> None:
            if batch.mask is not None:
                listed = [batch.mask] if isinstance(batch.mask, torch.Tensor) else batch.mask
                real = listed[min(i, len(listed) - 1)].to(x.device, torch.bool)
                if real.shape != x.shape[: real.ndim]:
                    raise ValueError(
                        f"`mask` has the shape {tuple(real.shape)} and the embedding "
                        f"{tuple(x.shape)}: give one entry for each position."
                    )
            if real is not None:
                real = real.reshape(*real.shape, *[1] * (x.ndim - real.ndim))
            clean.inputs.append(x.detach())
            clean.real.append(real)

        with self.place.changed(look):
            value = batch.forward()
        if not clean.inputs:
            raise ValueError(
                f"The forward callable does not use the {type(self.place.module).__name__} whose "
                f"{self.place.side} is to be perturbed: name another module with `module`."
            )
        clean.loss, outputs = batch.read(value)
        clean.outputs = read_outputs(batch.kind, outputs)
        clean.counted = batch.counted
        real = clean.real[0]
        one_to_one = len(clean.real) == 1 and self.place.within is None
        if (
            batch.counted is None
            and batch.kind in ("tokens", "span")
            and real is not None
            and one_to_one
        ):
            real = real.flatten(2)[..., 0]
            clean.counted = real if real.shape == clean.outputs[0].shape[:2] else None
        return clean

    def _adversarial(self, clean: _Clean) -> torch.Tensor:
        initial, final = self._noise(clean)
        term = clean.divergence(self._perturbed(clean, final))
        if self.probe_every and self.step % self.probe_every == 0:
            with torch.no_grad():
                self._log[self._key("ratio", clean.batch)] = term.detach() / self._random(clean, final)
            self._log[self._key("cosine", clean.batch)] = cosine(initial, final)
        return term

    def _noise(self, clean: _Clean) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The initial noise and the adversary's, one for each call of the embedding."""
        calls = list(zip(clean.inputs, clean.real, strict=True))
        radii = [self.ball.radius(x, real) for x, real in calls]
        initial = [
            self.ball.start(x, real, radius) for (x, real), radius in zip(calls, radii, strict=True)
        ]
        target = tuple(t.detach() for t in clean.outputs)
        final = initial
        for _ in range(self.ascent_steps):
            leaves = [d.detach().requires_grad_() for d in final]
            with torch.enable_grad():
                moved = self._perturbed(clean, leaves)
                values, which = per_example(clean.batch.kind, moved, target, clean.counted)
                # A sum: the size is normalised away, and a mean might vanish in half precision.
                value = values.masked_fill(~which, 0.0).sum()
            if not value.requires_grad:
                raise ValueError(
                    f"The outputs do not depend on the {self.place.side} of "
                    f"{type(self.place.module).__name__}: name another module with `module`."
                )
            gradients = _ascent(value, leaves)
            final = [
                d if g is None else self.ball.ascended(d, g, radius, real)
                for d, g, radius, real in zip(final, gradients, radii, clean.real, strict=True)
            ]
        return initial, final

    def _perturbed(self, clean: _Clean, noise: Sequence[torch.Tensor]) -> Outputs:
        """The outputs with noise on the embedding, and the dropout masks of the clean pass."""

        def add(i: int, x: torch.Tensor, _: torch.Tensor | None) -> torch.Tensor:
            if i >= len(noise) or noise[i].shape != x.shape:
                raise ValueError(
                    "The forward callable used the embedding otherwise than at its first call: it "
                    "must compute the same batch at every call."
                )
            return x + noise[i].to(x.dtype)

        with extra_pass(self.model, clean.random), self.place.changed(add):
            return clean.batch.outputs()

    def _random(self, clean: _Clean, final: Sequence[torch.Tensor]) -> torch.Tensor:
        """The divergence under random noise as large; the random stream is not advanced."""
        with RandomState.capture(final).replayed():
            noise = [self.ball.random_like(d) for d in final]
        return clean.divergence(self._perturbed(clean, noise))

    def _key(self, name: str, batch: _Batch) -> str:
        return f"smart/{name}" if batch.task is None else f"smart/{name}/{batch.task}"


def _plus(loss: Loss, term: torch.Tensor) -> Loss:
    if isinstance(loss, tuple):
        return loss[0] + term.to(loss[0].device), loss[1]
    return loss + term.to(loss.device)


def _ascent(value: torch.Tensor, leaves: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    try:
        return torch.autograd.grad(value, leaves, allow_unused=True)
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        raise RuntimeError(
            "SMART's adversary cannot see through a reentrant activation checkpoint: checkpoint with "
            "use_reentrant=False."
        ) from error
