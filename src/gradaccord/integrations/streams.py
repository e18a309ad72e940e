"""Data sets without a length (`IterableDataset`), read as if their examples were numbered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from torch.utils.data import IterableDataset


def is_stream(data: Any) -> bool:
    """Whether a data set can only be iterated over, not indexed."""
    if isinstance(data, IterableDataset):  # which has `__getitem__`, to refuse it
        return True
    return not (hasattr(data, "__len__") and hasattr(data, "__getitem__"))


class StreamBatches(Iterator[list[int]]):
    """The numbers of a stream's batches, endless: the stream has an order of its own."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.starts = count(step=size)

    def __next__(self) -> list[int]:
        start = next(self.starts)
        return list(range(start, start + self.size))


class Stream:
    """The examples of a stream by number; a pass that ends begins the next one.

    It is read forwards and skips examples that are not requested, e.g. those of other processes: all
    processes read the same stream. Before a pass, `set_epoch` of the data set is called, on which those
    of the library `datasets` shuffle again. If an earlier number is requested, it starts from the
    beginning.

    length: how many examples are counted as its size.
    """

    def __init__(self, task: str, data: Any, length: int) -> None:
        self.task, self.data, self.length = task, data, length
        self._restart()

    def __len__(self) -> int:
        return self.length

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        """The examples of these numbers, which must ascend."""
        return [self[number] for number in numbers]

    def __getitem__(self, number: int) -> Any:
        if number < self.at:
            self._restart()
        while True:
            example = self._next()
            if self.at > number:
                return example

    def _restart(self) -> None:
        self.at = 0  # examples read
        self.passes = 0
        self.current: Iterator[Any] = iter(())

    def _next(self) -> Any:
        for _ in range(2):
            for example in self.current:
                self.at += 1
                return example
            if hasattr(self.data, "set_epoch"):
                self.data.set_epoch(self.passes)
            self.passes += 1
            self.current = iter(self.data)
        raise ValueError(
            f"The data set of task {self.task!r} gives no example after {self.at}: give one that can "
            "be read again from its beginning, or lower `max_steps`."
        )
