"""A model in the inner loop, fast or general: outputs, loss, gradient, predictions of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import Any, ClassVar, TypeAlias

import torch
from torch import nn

from gradaccord.meta.episodes.task_batch import Task
from gradaccord.meta.network.conv4 import FastConv4
from gradaccord.meta.network.general import (
    Network,
    Params,
    batch_statistics,
    chosen_network,
    general_network,
)
from gradaccord.meta.network.grouped_norms import GroupedNorms
from gradaccord.meta.network.stacked_tasks import laid, tasks_in

Loss: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

IMAGES_AT_ONCE = 128  # of a pass over several groups, which bounds its memory
NO_BF16 = (
    "`precision` is 'bf16', which only the fast network of Conv-4 with float32 weights has: leave it "
    'out, or call the learner under torch.autocast("cpu", torch.bfloat16).'
)
VALUES_AT_ONCE = 2**17  # of images that are prepared for several inner steps, likewise


class FunctionalModel:
    """A model and a loss as pure functions of parameters by name; the fast network where it is equal.

    wrap: changes the general network, e.g. to move running statistics.
    in_bf16: the fast network's activations are in bfloat16.
    """

    def __init__(self, model: nn.Module, loss: Loss, fast: bool, in_bf16: bool = False) -> None:
        self.model, self.fast, self.in_bf16 = model, fast, in_bf16
        self._loss = loss
        self.wrap: Callable[[Network], Network] | None = None
        self._chosen: Network | None = None
        self._way: str | None = None  # of predicting queries apart from each other
        self._device = "cpu"  # of the inputs; asking the model for it takes a walk through its modules

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: the chosen network is a closure over this very model."""
        return {**self.__dict__, "_chosen": None}

    @property
    def is_fast(self) -> bool:
        """Whether the fast network was chosen."""
        return isinstance(self._chosen, FastConv4)

    @property
    def is_graphless(self) -> bool:
        """Whether gradients are in closed form all through: no step of theirs uses autograd."""
        closed = self._loss is nn.functional.cross_entropy
        return closed and isinstance(self._network(), FastConv4)

    def choose(self, inputs: torch.Tensor) -> None:
        """Choose the network by the first inputs."""
        self._device = inputs.device.type
        if self._chosen is None:
            if self.fast:
                with batch_statistics(self.model, training=False):
                    self._chosen = chosen_network(self.model, inputs)
            else:
                self._chosen = self._general()
            if self.in_bf16:
                if not isinstance(self._chosen, FastConv4):
                    self._chosen = None
                    raise ValueError(NO_BF16)
                self._chosen.in_bf16 = True

    def parameters(self) -> dict[str, torch.Tensor]:
        """The model's own, by name."""
        return dict(self.model.named_parameters())

    def start(self, names: Sequence[str], inputs: torch.Tensor | None = None) -> list[torch.Tensor]:
        """The weights of these names, laid out in memory as the network's gradients are.

        inputs: of the task that moves them; if these are of stacked tasks, the weights of each.
        """
        params = self.parameters()
        weights = [params[name] for name in names]
        tasks = None if inputs is None else tasks_in(inputs)
        return [laid(weight, tasks) for weight in weights] if self.is_fast else weights

    def groups(self, tasks: Sequence[Task]) -> list[slice]:
        """The places of tasks, each alone or with its neighbours where one pass over all is faster."""
        network, groups = self._network(), []
        for _, alike in groupby(enumerate(tasks), lambda numbered: numbered[1].shapes):
            places, group = zip(*alike, strict=True)
            size = 1
            if isinstance(network, FastConv4):
                size = network.tasks_at_once(max(group[0].support, group[0].query, key=len))
            parts = -(-len(group) // size)  # of which none is much smaller than the others
            ends = [places[0] + len(group) * part // parts for part in range(parts + 1)]
            groups += [slice(*pair) for pair in pairwise(ends)]
        return groups

    def outputs(self, params: Params, inputs: torch.Tensor) -> torch.Tensor:
        """The model's outputs for inputs [examples, ...]."""
        return self._network()(params, inputs)

    def loss(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss, a scalar; summed over stacked tasks."""
        if self.is_fast and outputs.dim() == 3:
            return torch.stack([self.loss(*pair) for pair in zip(outputs, labels, strict=True)]).sum()
        with _explained(outputs, labels):
            loss = self._loss(outputs, labels)
        if loss.ndim:
            raise ValueError(
                f"`loss` returned a tensor of shape {list(loss.shape)}: it must return a scalar."
            )
        return loss

    @torch.no_grad()
    def slope(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The gradient of the loss by the outputs; of cross-entropy by autograd's kernels alone."""
        if self.is_fast and outputs.dim() == 3:
            return torch.stack([self.slope(*pair) for pair in zip(outputs, labels, strict=True)])
        if self._loss is not nn.functional.cross_entropy or labels.is_floating_point():
            with torch.inference_mode(False), torch.enable_grad():
                leaf = outputs.detach().clone().requires_grad_()
                loss = self.loss(leaf, labels)
                return torch.autograd.grad(loss, leaf, materialize_grads=True)[0]
        aten = torch.ops.aten
        by_class = outputs.log_softmax(1)
        with _explained(outputs, labels):
            mean, count = aten.nll_loss_forward(by_class, labels, None, 1, -100)
        one = torch.ones_like(mean)
        slope = aten.nll_loss_backward(one, by_class, labels, None, 1, -100, count)
        found: torch.Tensor = aten._log_softmax_backward_data(slope, by_class, 1, outputs.dtype)
        return found

    def batches(
        self, inputs: torch.Tensor, labels: torch.Tensor, drawn: Iterable[torch.Tensor]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The examples at the places of each mini-batch, prepared for several inner steps at once."""
        drawn = list(drawn)
        several = max(1, VALUES_AT_ONCE // (len(drawn[0]) * inputs[0].numel())) if drawn else 1
        for start in range(0, len(drawn), several):
            places = drawn[start : start + several]
            own, size = torch.cat(places), len(places[0])
            parts = torch.split(inputs[own], size)
            self.prepare(parts)
            yield from zip(parts, torch.split(labels[own], size), strict=True)

    def prepare(self, batches: Sequence[torch.Tensor]) -> None:
        """What the network can compute of inputs alone, for batches of one size together."""
        network, values = self._network(), sum(batch.numel() for batch in batches)
        alike = all(batch.shape == batches[0].shape for batch in batches)
        if isinstance(network, FastConv4) and alike and 0 < values <= VALUES_AT_ONCE:
            network.prepare(batches)

    def gradient(
        self,
        params: Params,
        names: Sequence[str],
        inputs: torch.Tensor,
        labels: torch.Tensor,
        create_graph: bool = False,
    ) -> list[torch.Tensor]:
        """The gradient of the loss with respect to the parameters of these names."""
        network = self._network()
        if isinstance(network, FastConv4):
            return network.gradient(params, names, inputs, labels, self.loss, create_graph, self.slope)
        with torch.enable_grad():
            loss = self.loss(network(params, inputs), labels)
            gradient = torch.autograd.grad(
                loss,
                [params[name] for name in names],
                create_graph=create_graph,
                allow_unused=True,
                materialize_grads=True,
            )
        return dense(gradient)

    @torch.no_grad()
    def predict(
        self, params: Params, support: torch.Tensor, query: torch.Tensor, transductive: bool
    ) -> torch.Tensor:
        """Outputs for the queries, [queries, ...]; no graph.

        transductive: all queries in one batch, whose statistics they share. Otherwise each query is
        normalised with the support set and without the other queries, as in supervised-reptile: in
        one pass over groups of support set and query where that was found equal (the first time) to
        a pass for every query. A network whose outputs do not depend on the batch takes all queries
        at once.
        """
        if transductive:
            return self.outputs(params, query)
        if len(query) < 2:
            return self._one_by_one(params, support, query)
        network = self._network()
        at_once = max(1, IMAGES_AT_ONCE // (len(support) + 1))
        if isinstance(network, FastConv4):
            parts = [network.predict(params, support, part) for part in torch.split(query, at_once)]
            return torch.cat(parts)
        if self._way is None:
            self._way = self._found_way(params, support, query[:2])
        if self._way == "grouped":
            return torch.cat(
                [self._grouped(params, support, part) for part in torch.split(query, at_once)]
            )
        return self._WAYS[self._way](self, params, support, query)

    def _together(self, params: Params, support: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        return self.outputs(params, query)

    def _grouped(self, params: Params, support: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        shared = support.expand(len(query), *support.shape)
        groups = torch.cat([shared, query.unsqueeze(1)], 1)
        with GroupedNorms(len(query)):
            return self.outputs(params, groups.flatten(0, 1))[len(support) :: len(support) + 1]

    def _one_by_one(self, params: Params, support: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        batches = (torch.cat([support, one.unsqueeze(0)]) for one in query)
        return torch.stack([self.outputs(params, batch)[-1] for batch in batches])

    _WAYS: ClassVar = {"together": _together, "grouped": _grouped, "one by one": _one_by_one}

    def _found_way(self, params: Params, support: torch.Tensor, query: torch.Tensor) -> str:
        """The fastest way that predicts these few queries as one pass for each does."""
        generator = torch.Generator("cpu").manual_seed(0)
        params = {  # away from weights that hide a dependence, such as a last layer of zeros
            name: tensor + 0.1 * torch.rand(tensor.shape, generator=generator, device="cpu").to(tensor)
            for name, tensor in params.items()
        }
        true = self._one_by_one(params, support, query).double()
        for name, way in self._WAYS.items():
            try:
                off = (way(self, params, support, query).double() - true).norm()
            except (RuntimeError, ValueError):  # batches of a size or shape that the model refuses
                continue
            if float(off) <= 1e-4 * float(true.norm()):
                return name
        return "one by one"

    def _network(self) -> Network:
        """The chosen network; under autocast the general one, as the fast one knows no casts."""
        assert self._chosen is not None
        if self.is_fast and torch.is_autocast_enabled(self._device):
            return self._general()
        return self._chosen

    def _general(self) -> Network:
        network = general_network(self.model)
        return network if self.wrap is None else self.wrap(network)


@contextmanager
def _explained(outputs: torch.Tensor, labels: torch.Tensor) -> Iterator[None]:
    """What is wrong if labels do not fit the outputs."""
    try:
        yield
    except IndexError as error:
        raise ValueError(
            f"Labels run to {int(labels.max())} and the model has {outputs.shape[-1]} outputs: "
            "give labels 0 to ways - 1, or a model with as many outputs as ways."
        ) from error


def dense(gradients: Sequence[torch.Tensor | None]) -> list[Any]:
    """The gradients, if none of them is sparse."""
    if any(gradient is not None and gradient.is_sparse for gradient in gradients):
        raise RuntimeError(
            "A gradient in the inner loop is sparse: call torch.nn.functional.embedding with "
            "sparse=False, or use torch.nn.Embedding."
        )
    return list(gradients)
