"""Freed memory stays with the process where the C library is glibc, unless the user says otherwise."""

import platform
import resource
import subprocess
import sys

import pytest

from gradaccord.runs import freed_memory
from gradaccord.runs.freed_memory import keep_freed_memory

FAULTS = """
import resource, sys
from gradaccord.runs.freed_memory import keep_freed_memory
kept = keep_freed_memory() if sys.argv[1] == "keep" else True
import torch
for step in range(20):
    if step == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how):
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True
    )
    kept, faults = done.stdout.split()
    assert kept == "True"
    return int(faults) * resource.getpagesize()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_a_block_that_was_freed_is_used_again_and_not_fetched_from_the_system():
    assert _faults("leave") > 9 * 2**26 > 2**26 > _faults("keep")


@pytest.mark.parametrize("name", freed_memory.SETTINGS)
def test_the_users_own_settings_stay(name, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert not keep_freed_memory()


def test_without_glibc_nothing_happens(monkeypatch):
    for name in freed_memory.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory()
