"""The random state: replayed, so that a loss computed twice sees the same dropout masks; or seeded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.utils.checkpoint import get_device_states, set_device_states


@dataclass(frozen=True)
class RandomState:
    """A snapshot of torch's global generators: the CPU's, and those of the accelerators in use."""

    cpu: torch.Tensor
    accelerator: str
    device_ids: tuple[int, ...]
    device_states: tuple[torch.Tensor, ...]

    @classmethod
    def capture(cls, tensors: Iterable[torch.Tensor] = ()) -> RandomState:
        """Snapshot the CPU generator and those of the devices that hold `tensors`."""
        away = {t.device: t for t in tensors if t.device.type not in ("cpu", "meta")}
        if not away:
            return cls(torch.get_rng_state(), "cpu", (), ())
        ids, states = get_device_states(*away.values())
        return cls(torch.get_rng_state(), next(iter(away)).type, tuple(ids), tuple(states))

    def restore(self) -> None:
        """Put the generators back to where they were."""
        torch.set_rng_state(self.cpu)
        if self.device_ids:
            set_device_states(self.device_ids, self.device_states, device_type=self.accelerator)

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Run a block from this state, then return to the state from before the block."""
        held = [torch.empty(0, device=f"{self.accelerator}:{i}") for i in self.device_ids]
        before = RandomState.capture(held)
        self.restore()
        try:
            yield
        finally:
            before.restore()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run a block with the CPU generator seeded, then return it to where it was.

    Touches that generator alone: torch.manual_seed would reseed every accelerator's, too, and nothing
    would put these back.
    """
    held = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(held)
