"""Under DDP: each task's gradient is summed over processes while the next task runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import torch
import torch.distributed as dist

from gradaccord.core.bank import Bank, Gradient, Rows
from gradaccord.core.reduce import Summary, exchanged, failure_of, means_of, raise_failures

Keep: TypeAlias = Callable[[list[Gradient | None]], list[Gradient | None]]

ALONE = 1 << 18  # a gradient of so many numbers is sent by itself, where it lies; smaller ones together


@dataclass(frozen=True)
class Known:
    """What a task's gradients were like when the processes last met over it; the same on all."""

    unit: float  # of how many items its gradients are; it stays, for batches that are run again
    dense: tuple[int, ...]  # positions of the parameters that it reaches, embeddings left out


def unit_of(known: Mapping[str, Known], task: str, items: float) -> float:
    """The number of items that is the unit of a task's gradients: near the first batch's count, so that
    they have their true size, and a power of two, so that it never shows in the result.
    """
    return known[task].unit if task in known else _power_of_two(items)


class Reduction:
    """The sums of one step's task gradients over processes, weighted by item counts.

    All processes agree on the tasks before the first one runs. A task that was there before is sent
    as soon as its backward pass is over: its gradients are taken to be like those of the last time.
    What is new, and embeddings by the rows that any process touched, is sent when all have met again.
    Tasks may come in another order on each process, or be missing on some. A process that failed
    still sends zeros where the others wait, then reports it: all raise.

    known: what was seen in earlier steps; it is brought up to date.
    keep: brings a task's summed gradients into the form that the bank has.
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        embeddings: Container[int],
        group: dist.ProcessGroup,
        known: dict[str, Known],
        keep: Keep = lambda gradients: gradients,
    ) -> None:
        self.parameters = parameters
        self.embeddings = embeddings
        self.group = group
        self.known = known
        self.keep = keep
        self.met = False  # whether the processes have agreed on the tasks
        self.over = False  # whether all of them know that one has failed
        self.waiting: list[str] = []  # tasks that are still to be sent, in the order that all keep to
        self.ready: dict[str, list[Gradient | None]] = {}
        self.units: dict[str, float] = {}
        self.forms: dict[str, list[Any]] = {}
        self.sent: dict[str, list[_Bucket]] = {}

    def agree(self, tasks: Sequence[str] | Exception) -> None:
        """Meet before the first task runs; all raise if one process has none."""
        self.met = self.over = True
        if isinstance(tasks, Exception):
            exchanged(failure_of(tasks), self.group)
            raise tasks
        summaries = exchanged(Summary(dict.fromkeys(tasks, (1.0, 0.0))), self.group)
        raise_failures(summaries)
        self.over = False
        self.waiting = [task for task in means_of(summaries) if task in self.known]

    def add(self, task: str, gradients: list[Gradient | None], unit: float) -> None:
        """Send a task's gradients if it is their turn; they must be left alone until `finish`."""
        self.ready[task], self.units[task] = gradients, unit
        self.forms[task] = [_form(gradient) for gradient in gradients]
        while self.waiting and self.waiting[0] in self.ready:
            self._send(self.waiting.pop(0))

    def finish(self, outcome: Bank | Exception) -> Bank:
        """The bank of the joined batch, the same on every process."""
        if self.over or (isinstance(outcome, Exception) and not self.met):
            assert isinstance(outcome, Exception)
            if not self.met:
                self.agree(outcome)
            raise outcome
        while self.waiting:
            self._send(self.waiting.pop(0))
        summaries = exchanged(self._summary(outcome), self.group)
        received = {task: _received(buckets) for task, buckets in self.sent.items()}
        if isinstance(outcome, Exception):
            raise outcome
        raise_failures(summaries)
        joined = Bank()
        for task, (items, loss) in means_of(summaries).items():
            unit = self._common_unit(task, summaries)
            layout = _common_layout([s.layout[task] for s in summaries if task in s.tasks])
            gradients = self.keep(self._rest(outcome, task, unit, layout, received.pop(task, {})))
            value = torch.tensor(loss, dtype=torch.float64, device="cpu")
            joined.add(task, gradients, unit / items, value, items)
            dense = tuple(
                i for i, form in enumerate(layout) if _is_dense(form) and i not in self.embeddings
            )
            self.known[task] = Known(unit, dense)
        return joined

    def _send(self, task: str) -> None:
        known = self.known[task]
        mine = self.ready.get(task) or [None] * len(self.parameters)
        weight = self.units.get(task, known.unit) / known.unit
        forms = dict.fromkeys(known.dense, "dense")
        self.sent[task] = self._started(forms, mine, weight)

    def _rest(
        self,
        bank: Bank,
        task: str,
        unit: float,
        layout: list[Any],
        received: Mapping[int, torch.Tensor],
    ) -> list[Gradient | None]:
        """All of a task's summed gradients: what was sent early, and the rest, which is sent now."""
        mine: list[Gradient | None] = [None] * len(self.parameters)
        weight = 1.0
        if task in bank.tasks:
            i = bank.tasks.index(task)
            mine, bank.gradients[i] = bank.gradients[i], []  # freed task by task
            weight = self._unit_of(bank, i) / unit
        forms = {i: form for i, form in enumerate(layout) if form is not None and i not in received}
        summed = dict(received) | _received(self._started(forms, mine, weight))
        result: list[Gradient | None] = []
        for position, form in enumerate(layout):
            if form is None:
                result.append(None)  # zeros, if it was sent early: none of the processes reaches it
            elif _is_dense(form) or position in received:
                result.append(summed[position])
            else:
                values, (index, sparse) = summed[position], form
                shape = self.parameters[position].shape
                result.append(Rows(index.to(values.device), values, shape, sparse))
        return result

    def _started(
        self, forms: Mapping[int, Any], mine: list[Gradient | None], weight: float
    ) -> list[_Bucket]:
        """Start the sums of the parameters at some positions; their gradients leave `mine`."""
        alone: list[list[int]] = []
        together: dict[Any, list[int]] = {}
        for position, form in forms.items():
            parameter = self.parameters[position]
            if _is_dense(form) and parameter.numel() >= ALONE:
                alone.append([position])
            else:  # rows apart: their number changes, and with it where the others lie
                kind = (parameter.device, parameter.dtype, _is_dense(form))
                together.setdefault(kind, []).append(position)
        started = []
        for positions in (*alone, *together.values()):
            bucket = _Bucket(
                positions,
                [_shape(forms[i], self.parameters[i]) for i in positions],
                _flat(positions, forms, mine, self.parameters),
            )
            for i in positions:
                mine[i] = None
            bucket.start(weight, self.group)
            started.append(bucket)
        return started

    def _summary(self, outcome: Bank | Exception) -> Summary:
        if isinstance(outcome, Exception):
            return failure_of(outcome)
        bank = outcome
        for task, gradients in zip(bank.tasks, bank.gradients, strict=True):
            self.forms.setdefault(task, [_form(gradient) for gradient in gradients])
        return Summary(
            tasks={
                task: (items, float(loss))
                for task, items, loss in zip(bank.tasks, bank.items, bank.losses, strict=True)
            },
            layout={task: self.forms[task] for task in bank.tasks},
            units={task: self._unit_of(bank, i) for i, task in enumerate(bank.tasks)},
        )

    def _unit_of(self, bank: Bank, i: int) -> float:
        return self.units.get(bank.tasks[i], bank.factors[i] * bank.items[i])

    def _common_unit(self, task: str, summaries: Sequence[Summary]) -> float:
        if task in self.known:
            return self.known[task].unit
        return _power_of_two(next(s.units[task] for s in summaries if task in s.units))


def join(
    outcome: Bank | Exception,
    parameters: Sequence[torch.Tensor],
    group: dist.ProcessGroup,
    keep: Keep = lambda gradients: gradients,
) -> Bank:
    """The same for a bank that is whole already: nothing is sent while tasks run.

    parameters: tensors of the shape, precision and place of each gradient.
    """
    return Reduction(parameters, (), group, {}, keep).finish(outcome)


@dataclass
class _Bucket:
    """Gradients that are summed at once: `flat` holds those at some positions, one behind the other."""

    positions: list[int]
    shapes: list[torch.Size]
    flat: torch.Tensor
    work: Any = None

    def start(self, weight: float, group: dist.ProcessGroup) -> None:
        if weight != 1.0:
            self.flat.mul_(weight)
        self.work = dist.all_reduce(self.flat, group=group, async_op=True)

    def received(self) -> dict[int, torch.Tensor]:
        """The sums, once they are there; views of one memory."""
        self.work.wait()
        views = torch.split(self.flat, [shape.numel() for shape in self.shapes])
        places = zip(self.positions, self.shapes, views, strict=True)
        return {position: view.view(shape) for position, shape, view in places}


def _received(buckets: Sequence[_Bucket]) -> dict[int, torch.Tensor]:
    return {place: found for bucket in buckets for place, found in bucket.received().items()}


def _flat(
    positions: Sequence[int],
    forms: Mapping[int, Any],
    mine: Sequence[Gradient | None],
    parameters: Sequence[torch.Tensor],
) -> torch.Tensor:
    """This process's gradients in one row: a single whole one as it lies, others as copies."""
    first, like = mine[positions[0]], parameters[positions[0]]
    if len(positions) == 1 and _is_dense(forms[positions[0]]) and _is_alike(first, like):
        return first.detach().contiguous().view(-1)
    shapes = [_shape(forms[i], parameters[i]) for i in positions]
    sizes = [shape.numel() for shape in shapes]
    flat = torch.zeros(sum(sizes), device=like.device, dtype=like.dtype)
    for i, shape, part in zip(positions, shapes, torch.split(flat, sizes), strict=True):
        _write(part.view(shape), mine[i], forms[i])
    return flat


def _is_alike(gradient: Gradient | None, parameter: torch.Tensor) -> TypeGuard[torch.Tensor]:
    """Whether it is whole, in the precision and at the place of its parameter."""
    return (
        isinstance(gradient, torch.Tensor)
        and gradient.dtype == parameter.dtype
        and gradient.device == parameter.device
    )


def _form(gradient: Gradient | None) -> Any:
    """None, "dense", or the touched rows and whether they must stay sparse."""
    if isinstance(gradient, Rows):
        return gradient.index.to("cpu"), gradient.sparse
    return None if gradient is None else "dense"


def _is_dense(form: Any) -> bool:
    return isinstance(form, str)


def _shape(form: Any, parameter: torch.Tensor) -> torch.Size:
    return parameter.shape if _is_dense(form) else torch.Size((len(form[0]), *parameter.shape[1:]))


def _common_layout(layouts: list[list[Any]]) -> list[Any]:
    """Per parameter, the form that holds every process's gradient."""
    common: list[Any] = []
    for forms in zip(*layouts, strict=True):
        present = [form for form in forms if form is not None]
        if not present:
            common.append(None)
        elif any(map(_is_dense, present)):
            common.append("dense")
        else:
            rows = torch.unique(torch.cat([index for index, _ in present]))
            common.append((rows, present[0][1]))
    return common


def _write(target: torch.Tensor, gradient: Gradient | None, form: Any) -> None:
    if isinstance(gradient, Rows):
        if _is_dense(form):
            target.index_copy_(0, gradient.index.to(target.device), gradient.values.to(target))
        else:
            place = torch.searchsorted(form[0], gradient.index.to("cpu"))
            target.index_copy_(0, place.to(target.device), gradient.values.to(target))
    elif gradient is not None:
        target.copy_(gradient)


def _power_of_two(number: float) -> float:
    return 2.0 ** round(math.log2(number))
