"""Memory and processor time are those of this process."""

import time

from gradaccord.runs.usage import cpu_seconds, peak_memory


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
