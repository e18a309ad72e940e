"""Ctrl-C, SIGTERM and SIGHUP: a run finishes its step and saves a checkpoint before it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

PARENT = "GRADACCORD_PARENT"  # environment variable: the id of the command that started this process
# Schedulers and torchrun end a process with the second, a closed terminal with the third.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))  # Windows lacks one


class Interrupts:
    """Notes Ctrl-C, SIGTERM and SIGHUP inside a `with` block; a second Ctrl-C stops at once.

    Once `saving` is set, a second Ctrl-C is only noted, so that what is being written is complete.

    say: called at once with what happens next, from another thread, as the step may be in the middle of
    a long computation. doing: returns what has to be finished first; "" is this step.

    Only the main thread can handle signals: in another one nothing is noted. A signal that the
    process ignores stays ignored, except SIGINT from the command that started it (`PARENT`). The end of
    that command counts as a signal: nobody waits for this run any more, and a restarted command needs
    the folder.
    """

    def __init__(
        self,
        say: Callable[[str], None] | None = None,
        doing: Callable[[], str] = lambda: "",
    ) -> None:
        self.noted = False
        self.saving = False
        self._say, self._doing = say, doing
        self._announced = False
        self._thread: threading.Thread | None = None
        self._pipe: tuple[int, int] = (-1, -1)
        self._wakeup_before = -1
        self._before: dict[signal.Signals, Any] = {}
        self._terminals = terminals()

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for kind in SIGNALS:
                ordered = kind == signal.SIGINT and PARENT in os.environ
                if ordered or signal.getsignal(kind) not in (signal.SIG_IGN, None):
                    self._before[kind] = signal.signal(kind, self._note)
            if self._say is not None and os.name == "posix":
                self._listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for one, before in self._before.items():
            signal.signal(one, before)
        self._before.clear()
        if self._thread is not None:
            signal.set_wakeup_fd(self._wakeup_before)
            os.close(self._pipe[1])
            self._thread.join()
            os.close(self._pipe[0])
            self._thread = None

    def _listen(self) -> None:
        """Start the thread: Python writes the number of a signal into the pipe when it comes."""
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        self._wakeup_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._announce, name="interrupts", daemon=True)
        self._thread.start()

    def _announce(self) -> None:
        assert self._say is not None
        while got := os.read(self._pipe[0], 64):
            if not set(got) & {signal.SIGINT, signal.SIGTERM}:
                continue
            name = "Ctrl-C" if signal.SIGINT in got else "SIGTERM"
            if not self._announced:
                what = self._doing() or "this step"
                self._say(
                    f"{name}: finishing {what}, then saving a checkpoint; press again to stop at once."
                )
            elif self.saving:
                self._say(f"{name}: still saving; it ends by itself.")
            self._announced = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted and not self.saving and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.noted = True
        silence(self._terminals)

    @property
    def stops(self) -> bool:
        """Whether this process has to stop: because of a signal, or because its parent has ended."""
        return self.noted or orphaned()

    def agreed(self, accelerator: Any) -> bool:
        """Whether any process was interrupted: all stop after the same step, or none does."""
        if accelerator.num_processes == 1:
            return self.stops
        import torch

        noted = torch.tensor([int(self.stops)], device=accelerator.device)
        return bool(accelerator.reduce(noted, "sum").item())


def terminals() -> list[int]:
    """Which of stdout and stderr are terminals."""
    return [number for number in (1, 2) if os.isatty(number)]


def silence(before: list[int]) -> None:
    """Discard output to terminals that have been closed: writing there fails."""
    for number in before:
        if not os.isatty(number):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)


def orphaned() -> bool:
    """Whether the command that started this process has ended."""
    parent = os.environ.get(PARENT)
    return parent is not None and parent != str(os.getppid())
