"""`decide="features"`: gradients at the shared representation decide, and one backward pass follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node

from gradaccord.core.bank import Bank, Gradient, compact, deliver
from gradaccord.core.engine import Engine
from gradaccord.core.gram import gram
from gradaccord.core.losses import Losses, SharedBatch, SharedFn, extras_of, read_losses, read_shared
from gradaccord.core.parameters import Model
from gradaccord.core.reduce import gathered, sum_over
from gradaccord.core.task_gradients import TaskGradients
from gradaccord.core.temporary_weights import weights_moved
from gradaccord.core.weighted_gradient import sum_of_losses


@dataclass(frozen=True)
class _Cut:
    """Where the graphs of the losses come together."""

    edges: list[GradientEdge]  # the representation: the outermost tensors that all losses depend on
    behind: list[int]  # positions of the parameters that they are computed from
    before: dict[str, list[int]]  # those of each task between the representation and its loss


@dataclass
class _Step:
    """What is known of a step after its forward pass."""

    losses: dict[str, torch.Tensor]
    cut: _Cut
    gram: torch.Tensor  # of this process, then of all; tasks as in `losses`
    shares: dict[str, float]  # of a task's items, this process's


class FeatureGradients(TaskGradients):
    """One batch under several heads: the heads run backward once per task, the trunk once.

    The Gram matrix of the gradients at the shared representation stands for that of the trunk's
    gradients: an approximation, exact if the trunk's Jacobian were an isometry. Parameters before the
    representation (heads) have their exact gradients. Memory: those, and T representations.
    """

    def __init__(self, model: Model, engine: Any = None) -> None:
        super().__init__(model, engine)
        if self.shards is not None:
            raise ValueError(
                "`decide` is 'features', which needs several backward passes through one graph, and "
                "FSDP2 allows one: use DDP, or `decide='gradients'`."
            )
        self._step: _Step | None = None

    def forget(self) -> None:
        self._step = None

    def of_this_process(self, losses: Losses, engine: Engine | None = None) -> Bank | Exception:
        weights_moved()
        engine = engine or self.engine
        try:
            self._check_parameters()
            batches = read_losses(losses)
            if not isinstance(batches, SharedBatch) or len(batches.calls) != 1:
                raise ValueError(
                    "`decide` is 'features', which needs one batch under several heads: give one "
                    "callable that returns a mapping from task to loss, or use `decide='gradients'`."
                )
            with engine.no_sync():
                bank = self._heads(batches.calls[0], engine)
            self.extras = extras_of(batches)
            return bank
        except Exception as error:
            if self.engine.group is None:
                raise
            return error

    def _heads(self, call: SharedFn, engine: Engine) -> Bank:
        """The gradients before the representation, exact, and at it, as a Gram matrix."""
        given = read_shared(call())
        losses = {task: loss for task, (loss, _) in given.items()}
        items = {task: 1.0 if n is None else n for task, (_, n) in given.items()}
        bank = Bank()
        if len(losses) == 1:  # nothing to decide
            ((task, loss),) = losses.items()
            self._backward(task, engine, loss)
            bank.add(task, self._reached(task, self._taken()), 1.0, loss.detach(), items[task])
            return bank
        cut = self._cut(losses)
        features = []
        for task, loss in losses.items():
            own = cut.before[task]
            inputs: list[Any] = [*cut.edges, *(self.parameters.tensors[i] for i in own)]
            scaled = loss.reshape(()) * engine.scale()
            found = torch.autograd.grad(scaled, inputs, retain_graph=True, allow_unused=True)
            features.append(list(found[: len(cut.edges)]))
            gradients: list[torch.Tensor | None] = [None] * len(self.parameters)
            for position, gradient in zip(own, found[len(cut.edges) :], strict=True):
                gradients[position] = gradient
            bank.add(task, compact(self.parameters, gradients), 1.0, loss.detach(), items[task])
        products = gram(features).sum(0) / engine.scale() ** 2
        self._step = _Step(losses, cut, products, items)
        return bank

    def _cut(self, losses: dict[str, torch.Tensor]) -> _Cut:
        """Split the graph into what all losses depend on and what is a task's own."""
        roots = {task: _edge(loss) for task, loss in losses.items()}
        nodes = {task: _reachable([edge.node]) for task, edge in roots.items()}
        common = set.intersection(*(set(found) for found in nodes.values()))
        users: dict[tuple[Node, int], set[str]] = {}
        for task, root in roots.items():
            edges: list[tuple[Node | None, int]] = [(root.node, root.output_nr)]
            edges += [edge for node in nodes[task] - common for edge in node.next_functions]
            for node, number in edges:
                if node is not None and node in common:
                    users.setdefault((node, number), set()).add(task)
        inner = _reachable(child for node, _ in users for child, _ in node.next_functions)
        outermost = {edge: tasks for edge, tasks in users.items() if edge[0] not in inner}
        if not any(len(tasks) > 1 for tasks in outermost.values()):
            raise ValueError(
                "`decide` is 'features', and no tensor is used by two of the losses of "
                f"{', '.join(losses)}: give one batch under several heads, with heads that are not "
                "compiled together with the trunk, or use `decide='gradients'`."
            )
        place = {id(tensor): i for i, tensor in enumerate(self.parameters.tensors)}
        return _Cut(
            edges=[GradientEdge(node, number) for node, number in outermost],
            behind=_positions(common, place),
            before={task: _positions(found - common, place) for task, found in nodes.items()},
        )

    def joined(self, outcome: Bank | Exception) -> Bank:
        group = self.engine.group
        if group is not None:
            own: Any = outcome
            if isinstance(outcome, Bank):
                own = (sorted(outcome.tasks), self._step and self._step.cut.behind)
            brought = gathered(own, (group,))
            if any(other != own for other in brought):
                raise ValueError(
                    "`decide` is 'features', and the processes have different tasks or heads: every "
                    "process must bring the same ones to a step."
                )
        bank = super().joined(outcome)
        step = self._step
        if step is not None:
            items = dict(zip(bank.tasks, bank.items, strict=True))
            step.shares = {task: own / items[task] for task, own in step.shares.items()}
            shares = torch.tensor(list(step.shares.values()), dtype=torch.float64, device="cpu")
            step.gram = step.gram * shares[:, None] * shares[None, :]
            if group is not None:
                sum_over(step.gram, group, self.parameters.tensors[0].device)
        return bank

    def dot_products(self, bank: Bank) -> torch.Tensor:
        """Exact before the representation; its own Gram matrix is spread evenly over what is behind."""
        products = super().dot_products(bank)
        step = self._step
        if step is not None:
            order = [list(step.losses).index(task) for task in bank.tasks]
            products[step.cut.behind] += step.gram[order][:, order] / len(step.cut.behind)
            self.sum_over_processes(products)
        return products

    def combined(self, bank: Bank, weights: Sequence[list[float]]) -> list[torch.Tensor | None]:
        found = super().combined(bank, weights)
        step = self._step
        if step is None:
            return found
        row = weights[step.cut.behind[0]]
        outcome: list[Gradient | None] | Exception
        try:
            shares = {t: w * step.shares[t] for t, w in zip(bank.tasks, row, strict=True)}
            with self.engine.no_sync():
                self.engine.backward(sum_of_losses(step.losses, shares))
            outcome = self._taken()
            for position in set(range(len(outcome))) - set(step.cut.behind):
                outcome[position] = None
        except Exception as error:
            if self.engine.group is None:
                raise
            outcome = error
        summed = self.summed(outcome)
        for position in step.cut.behind:
            found[position] = deliver(self.parameters.tensors[position], summed[position])
        return found

    def stays_finite(self, reach: float, weight: float) -> bool:
        """Unknown: lengths at the representation say nothing of the trunk's gradient."""
        return False


def _edge(loss: torch.Tensor) -> GradientEdge:
    edge: GradientEdge = torch.autograd.graph.get_gradient_edge(loss)
    return edge


def _reachable(nodes: Iterable[Node | None]) -> set[Node]:
    """The nodes of a graph that lie behind some, and these."""
    found: set[Node] = set()
    waiting = [node for node in nodes if node is not None]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [child for child, _ in node.next_functions if child is not None]
    return found


def _positions(nodes: Iterable[Node], place: dict[int, int]) -> list[int]:
    """The positions of the parameters among the leaves."""
    leaves = [getattr(node, "variable", None) for node in nodes]
    return sorted(place[id(leaf)] for leaf in leaves if leaf is not None and id(leaf) in place)
