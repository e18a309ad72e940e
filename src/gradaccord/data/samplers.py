"""Which task comes next, and which of its batches: endless, and resumed exactly where they stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from numbers import Integral
from typing import Any, Generic, Literal, TypeVar, get_args

import torch

from gradaccord.core.checks import whole_number
from gradaccord.core.options import check_options, look_up, options_of

Example = TypeVar("Example")
Pairs = Literal["batches", "tasks"]


class TaskSampler(Iterator[tuple[str, ...]]):
    """Base class: an endless iterator over the names of the tasks of each step.

        for tasks in sampler:
            losses = {task: partial(loss_fn, model, next(batches[task])) for task in tasks}

    Each sampler has its own random generator: the same seed gives the same tasks on every process.
    Where an epoch is defined, `len(sampler)` is its number of steps and `epoch` counts those completed;
    `itertools.islice(sampler, len(sampler))` runs one.
    """

    def __init__(self, tasks: Iterable[str], seed: int = 0) -> None:
        self.tasks = tuple(tasks)
        if not self.tasks:
            raise ValueError("`tasks` is empty: give the sampler at least one task.")
        for i, task in enumerate(self.tasks):
            if task in self.tasks[:i]:
                raise ValueError(f"Task {task!r} is given twice: names must differ.")
        self.step = 0  # steps drawn so far
        self.generator = torch.Generator().manual_seed(seed)

    def __next__(self) -> tuple[str, ...]:
        drawn = self.draw()
        self.step += 1
        return drawn

    def draw(self) -> tuple[str, ...]:
        """The tasks of the step numbered `step`, counted from 0."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Position and generator."""
        return {
            "sampler": type(self).__name__,
            "tasks": self.tasks,
            "step": self.step,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position; a fresh instance with the same tasks will do."""
        if state.get("sampler") != type(self).__name__:
            raise ValueError(
                f"The state was saved by {state.get('sampler')!r}, and this is {type(self).__name__!r}."
            )
        if tuple(state["tasks"]) != self.tasks:
            raise ValueError(
                f"The state was saved with the tasks {', '.join(state['tasks'])}, and this sampler has "
                f"{', '.join(self.tasks)}: build it with the same tasks in the same order."
            )
        self.step = int(state["step"])
        self.generator.set_state(state["generator"].cpu())


class EpochTasks(TaskSampler):
    """A sampler with epochs, of `len` steps each. batches: number of batches of each task."""

    def __init__(self, batches: Mapping[str, int], seed: int = 0) -> None:
        super().__init__(batches, seed)
        self.batches = _counts("batches", batches)

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """Epochs completed."""
        return self.step // len(self)


class SequentialTasks(EpochTasks):
    """In every epoch all batches of the first task, then all of the second, and so on.

    The last task dominates the end of an epoch; shuffle=True draws a new order of the tasks for
    each. batches: number of batches of each task (`{task: len(batches)}`).
    """

    def __init__(self, batches: Mapping[str, int], *, shuffle: bool = False, seed: int = 0) -> None:
        super().__init__(batches, seed)
        self.shuffle = shuffle
        self.order = self.tasks  # of this epoch

    def __len__(self) -> int:
        return sum(self.batches.values())

    def draw(self) -> tuple[str, ...]:
        """The task whose turn it is."""
        place = self.step % len(self)
        if place == 0 and self.shuffle:
            order = torch.randperm(len(self.tasks), generator=self.generator, device="cpu").tolist()
            self.order = tuple(self.tasks[i] for i in order)
        ends = accumulate(self.batches[task] for task in self.order)
        return (next(task for task, end in zip(self.order, ends, strict=True) if place < end),)

    def state_dict(self) -> dict[str, Any]:
        """Position, generator and this epoch's order."""
        return super().state_dict() | {"order": self.order, "batches": dict(self.batches)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position; a fresh instance with the same tasks will do."""
        if state.get("batches", self.batches) != self.batches:
            raise ValueError(
                f"The state was saved with `batches` {state['batches']}, and this sampler has "
                f"{self.batches}: the position in the epoch would not be the same."
            )
        super().load_state_dict(state)
        self.order = tuple(state["order"])


class RoundRobinTasks(EpochTasks):
    """Every step one batch of each task; an epoch is as long as the smallest task.

    In the next epoch larger tasks continue where they stopped (see `TaskBatches`).
    """

    def __len__(self) -> int:
        return min(self.batches.values())

    def draw(self) -> tuple[str, ...]:
        """All tasks."""
        return self.tasks


class WeightedTasks(TaskSampler):
    """Every step `n` different tasks, drawn with fixed weights; all tasks if there are no more than n.

    weights: of each task, positive; they need not sum to 1. A single draw takes task t with
    probability p_t = w_t / sum_s w_s, the next draws in the same way among the tasks that are left.
    """

    def __init__(self, weights: Mapping[str, float], *, n: int = 1, seed: int = 0) -> None:
        super().__init__(weights, seed)
        for task, weight in weights.items():
            if not 0 < weight < math.inf:
                raise ValueError(
                    f"`weights` gives task {task!r} {weight}: it must be a finite number > 0; leave "
                    "out a task that is never to be drawn."
                )
        self.n = whole_number("n", n, hint=", the tasks drawn per step")
        largest = max(weights.values())
        self.weights = torch.tensor(
            [w / largest for w in weights.values()], dtype=torch.float64, device="cpu"
        )

    @property
    def probabilities(self) -> dict[str, float]:
        """p_t, the probability that a single draw takes each task."""
        return dict(zip(self.tasks, (self.weights / self.weights.sum()).tolist(), strict=True))

    def draw(self) -> tuple[str, ...]:
        """The next n tasks, in the order in which they were given."""
        if self.n >= len(self.tasks):
            return self.tasks
        drawn = torch.multinomial(self.weights, self.n, generator=self.generator)
        return tuple(self.tasks[i] for i in sorted(drawn.tolist()))


class ProportionalTasks(WeightedTasks):
    """Tasks drawn by their size: p_t ~ N_t^q.

    q = 1 is proportional, q = 0 uniform; 1/5 is the setting of Lee et al. 2022. sizes: N_t, the
    number of examples of each task.
    """

    def __init__(self, sizes: Mapping[str, int], *, q: float = 0.2, n: int = 1, seed: int = 0) -> None:
        if not math.isfinite(q):
            raise ValueError(
                f"`q` is {q}: it must be a finite number, 0 (uniform) to 1 (proportional)."
            )
        sizes = _counts("sizes", sizes)
        # Relative to the largest, so that no power overflows.
        weights = {t: (size / max(sizes.values())) ** q for t, size in sizes.items()}
        super().__init__(weights, n=n, seed=seed)


class UniformTasks(WeightedTasks):
    """Every task with the same probability."""

    def __init__(self, tasks: Iterable[str], *, n: int = 1, seed: int = 0) -> None:
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        TaskSampler.__init__(self, names)  # finds a name given twice, which a mapping would hide
        super().__init__(dict.fromkeys(names, 1.0), n=n, seed=seed)


class TaskPairs(TaskSampler):
    """In every step the two tasks of a pair of batches, for methods on pairs such as `DotProd`.

    Kedia et al. 2021 (Algorithm 1) pair consecutive batches of the one stream they train on. So here a
    pair is two consecutive batches of one task, which is drawn once for both.

    sampler: draws the tasks.
    pairs: "batches": each task that is drawn gives a pair of its own batches. "tasks": the tasks, in
        the order in which they are drawn, make the pairs two by two, which aligns tasks with one
        another. None: "tasks" where the sampler draws several tasks at once, else "batches".
    """

    def __init__(self, sampler: TaskSampler, pairs: Pairs | None = None) -> None:
        super().__init__(sampler.tasks)
        if pairs not in (None, *get_args(Pairs)):
            raise ValueError(f"`pairs` is {pairs!r}: use 'batches' or 'tasks'.")
        self.sampler = sampler
        self.pairs = pairs
        self.pending: tuple[str, ...] = ()  # drawn and not yet given

    def draw(self) -> tuple[str, ...]:
        """The first batch's task and the second's."""
        while len(self.pending) < 2:
            drawn = next(self.sampler)
            alone = self.pairs == "batches" or (self.pairs is None and len(drawn) == 1)
            self.pending += tuple(task for task in drawn for _ in range(2 if alone else 1))
        pair, self.pending = self.pending[:2], self.pending[2:]
        return pair

    def state_dict(self) -> dict[str, Any]:
        """The sampler's, and what it has drawn ahead."""
        return super().state_dict() | {"of": self.sampler.state_dict(), "pending": self.pending}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position; a fresh instance with the same tasks will do."""
        super().load_state_dict(state)
        self.sampler.load_state_dict(state["of"])
        self.pending = tuple(state["pending"])


SAMPLERS: dict[str, type[TaskSampler]] = {
    "round_robin": RoundRobinTasks,
    "sequential": SequentialTasks,
    "proportional": ProportionalTasks,
    "uniform": UniformTasks,
    "weighted": WeightedTasks,
}


def sampler_of(
    name: str, sizes: Mapping[str, int], batches: Mapping[str, int], **options: Any
) -> TaskSampler:
    """The sampler with this name, for tasks with these numbers of examples and batches."""
    about: dict[str, Any] = {"sizes": sizes, "batches": batches, "tasks": tuple(sizes)}
    known = options_of(SAMPLERS[name])
    return SAMPLERS[name](**{k: v for k, v in about.items() if k in known}, **options)


def check_sampler(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a sampler, converted to their types; unknown ones are refused."""
    cls = look_up("The sampler", name, SAMPLERS)
    known = options_of(cls, hidden=("sizes", "batches", "tasks", "seed"))
    return check_options(f"The sampler {name!r}", options, known)


def batch_names(tasks: Sequence[str]) -> tuple[str, ...]:
    """A name for each batch of a step: its task's, with #1, #2, ... where that comes more than once."""
    return tuple(
        f"{task}#{tasks[: i + 1].count(task)}" if tasks.count(task) > 1 else task
        for i, task in enumerate(tasks)
    )


class TaskBatches(Iterator[Any], Generic[Example]):
    """The batches of one task: endless, shuffled again on every pass, resumed exactly.

    A pass that ends begins the next one, so that a large task keeps its place over the epochs of a
    smaller one. `len` is the number of batches in a pass; `epoch` counts the passes completed.
    Across processes, give each its own part of the data (`data[rank::world_size]`).

    data: anything with a length and items.
    collate: makes a batch from a list of items.
    lengths: of each item, e.g. in tokens. With them, items of similar length share a batch, so that
        little is padded: the shuffled items are sorted within windows of at most `WINDOW` batches and
        of at most 1 / `PARTS` of a pass, so that over the passes an item meets about as many others as
        without; a pass of fewer than 2 * `PARTS` batches is not sorted. The batches come in random
        order, and what does not fill a batch is cut off at random, before anything is sorted.
    """

    WINDOW = 50
    PARTS = 25

    def __init__(
        self,
        data: Sequence[Example],
        batch_size: int,
        *,
        shuffle: bool = True,
        drop_last: bool = False,
        collate: Callable[[list[Example]], Any] = list,
        lengths: torch.Tensor | None = None,
        seed: int = 0,
    ) -> None:
        whole_number("batch_size", batch_size)
        if len(data) < (batch_size if drop_last else 1):
            raise ValueError(
                f"`data` has {len(data)} examples, which do not fill one batch of {batch_size}: give "
                "more data, a smaller batch_size or drop_last=False."
            )
        if lengths is not None and len(lengths) != len(data):
            raise ValueError(
                f"`lengths` has {len(lengths)} entries for {len(data)} examples: give one each."
            )
        self.data = data
        self.lengths = lengths
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate = collate
        self.generator = torch.Generator().manual_seed(seed)
        self.epoch = 0
        self.position = 0  # batches given in this pass
        self._order = self._shuffle()

    def __len__(self) -> int:
        whole, rest = divmod(len(self.data), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __next__(self) -> Any:
        if self.position == len(self):
            self.epoch += 1
            self.position = 0
            self._order = self._shuffle()
        start = self.position * self.batch_size
        index = self._order[start : start + self.batch_size].tolist()
        batch = self.collate([self.data[i] for i in index])
        self.position += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Position, and the generator as it was when this pass was shuffled."""
        return {
            "examples": len(self.data),
            "batch_size": self.batch_size,
            "epoch": self.epoch,
            "position": self.position,
            "generator": self._shuffled.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position; a fresh instance over the same data will do."""
        for field, here in (("examples", len(self.data)), ("batch_size", self.batch_size)):
            if state[field] != here:
                raise ValueError(
                    f"The state was saved with {field}={state[field]}, and here it is {here}: the "
                    "position in the data would not be the same."
                )
        self.epoch = int(state["epoch"])
        self.position = int(state["position"])
        self.generator.set_state(state["generator"].cpu())
        self._order = self._shuffle()

    def _shuffle(self) -> torch.Tensor:
        self._shuffled = self.generator.get_state()  # to shuffle this pass again after a restart
        # Half the memory of int64, and the same numbers.
        narrow = torch.int32 if len(self.data) < 2**31 else torch.int64
        if not self.shuffle:
            return torch.arange(len(self.data), dtype=narrow, device="cpu")
        order = torch.randperm(len(self.data), generator=self.generator, dtype=narrow, device="cpu")
        return order if self.lengths is None else self._grouped(order, self.lengths)

    def _grouped(self, order: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        whole = len(order) // self.batch_size
        window = min(whole // self.PARTS, self.WINDOW)
        if window < 2:
            return order
        full = order[: whole * self.batch_size]
        pieces = [
            piece[lengths[piece].argsort(descending=True, stable=True)]
            for piece in torch.split(full, window * self.batch_size)
        ]
        places = torch.randperm(whole, generator=self.generator, device="cpu")
        batches = torch.cat(pieces).view(whole, self.batch_size)[places]
        return torch.cat([batches.flatten(), order[len(full) :]])


def _counts(field: str, counts: Mapping[str, int]) -> dict[str, int]:
    for task, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise ValueError(
                f"`{field}` gives task {task!r} {count!r}: it must be a whole number >= 1; leave out a "
                "task without data."
            )
    return {task: int(count) for task, count in counts.items()}
