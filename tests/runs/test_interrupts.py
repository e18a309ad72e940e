"""Ctrl-C and SIGTERM are noted, a second Ctrl-C stops at once, and handlers are put back."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from gradaccord.runs.interrupts import PARENT, SIGNALS, Interrupts, silence


class OneProcess:
    num_processes = 1


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_the_handler_is_put_back(number, request):
    ignored = signal.signal(number, signal.default_int_handler)  # nohup ignores SIGHUP
    request.addfinalizer(lambda: signal.signal(number, ignored))
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert not interrupts.agreed(OneProcess())
        signal.raise_signal(number)
        assert interrupts.agreed(OneProcess())
    assert signal.getsignal(number) == before


def test_a_second_ctrl_c_stops_at_once_unless_something_is_being_saved():
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        interrupts.saving = True
        signal.raise_signal(signal.SIGINT)


def test_an_ignored_signal_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGTERM)
            assert not interrupts.noted
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_end_of_the_parent_counts(monkeypatch):
    monkeypatch.setenv(PARENT, str(os.getppid()))
    assert not Interrupts().agreed(OneProcess())
    monkeypatch.setenv(PARENT, "0")
    assert Interrupts().agreed(OneProcess())


def told_by(say):
    """Waits for the thread that tells."""
    end = time.monotonic() + 30
    while not say and time.monotonic() < end:
        time.sleep(0.01)
    return list(say)


THEN = "then saving a checkpoint; press again to stop at once."


def test_what_follows_is_told_once_and_the_thread_ends():
    told, doing = [], ["this step"]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    with Interrupts(told.append, lambda: doing[0]) as interrupts:
        doing[0] = "an evaluation"
        signal.raise_signal(signal.SIGINT)
        assert told_by(told) == [f"Ctrl-C: finishing an evaluation, {THEN}"]
        interrupts.saving = True
        told.clear()
        signal.raise_signal(signal.SIGINT)
        assert told_by(told) == ["Ctrl-C: still saving; it ends by itself."]
    assert "interrupts" not in [thread.name for thread in threading.enumerate()]
    assert signal.set_wakeup_fd(-1) == wakeup
    signal.set_wakeup_fd(wakeup)


def test_it_is_told_in_the_middle_of_a_long_computation():
    """Python runs no handler before the call of torch returns; the thread does not wait for that."""
    code = """
import torch
from gradaccord.runs.interrupts import Interrupts
x = torch.randn(1500, 1500)
with Interrupts(lambda sentence: print(sentence, flush=True)):
    print("begins", flush=True)
    torch.linalg.svd(x)
    print("ends", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=120)[0].splitlines()
    assert out == [f"Ctrl-C: finishing this step, {THEN}", "ends"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs terminals that a process can make")
def test_only_a_terminal_that_was_closed_is_silenced():
    screen, terminal = os.openpty()
    silence([terminal])
    os.write(terminal, b"seen")
    assert os.read(screen, 4) == b"seen"
    os.close(screen)
    with pytest.raises(OSError):
        os.write(terminal, b"lost")
    silence([terminal])
    os.write(terminal, b"to nowhere")
    os.close(terminal)
