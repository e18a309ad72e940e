"""Memory and processor time are those of this process."""

import sys
import time

import pytest
import torch

from gradaccord.runs.usage import compute_seconds, cpu_seconds, peak_memory


def test_the_peak_never_falls_and_counts_in_megabytes():
    before = peak_memory()
    block = bytearray(64 << 20)
    block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
    del block
    assert 10 < before <= peak_memory() < 1e6


def test_processor_time_grows_with_work():
    before, began = cpu_seconds(), time.perf_counter()
    while cpu_seconds() == before:
        assert time.perf_counter() - began < 60


@pytest.mark.skipif(sys.platform != "linux", reason="compares with what Linux counts")
def test_macos_counts_the_peak_in_bytes(monkeypatch):
    linux = peak_memory()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak_memory() == pytest.approx(linux / 2**10, rel=0.1)


def test_on_a_cpu_the_clock_of_work_stands_still_while_nothing_is_done():
    before = compute_seconds(torch.device("cpu"))
    time.sleep(0.5)
    assert compute_seconds(torch.device("cpu")) - before < 0.4
