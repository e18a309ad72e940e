"""What tests of several rooms start from."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def pytest_configure() -> None:
    """Ctrl-C is tested, also where the tests run in the background of a script, which ignores it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """The models are too small for more, and the cores may be busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toys' parameters are small: sketch them all the same."""
    from gradaccord.core import sketched_gradients

    monkeypatch.setattr(sketched_gradients, "SMALL", 4)


@pytest.fixture(scope="module")
def group() -> Iterator[ProcessGroup]:
    """A process group of one process, for what is collective."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()
