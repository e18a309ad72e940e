"""Processes of one run, on one: where it trains, and errors of a lost process alone are reworded.

Several processes are in tests/distributed.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gradaccord.runs.ranks import ProcessLostError, gathered, others_alive, where

LOST = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1"


def accelerator(processes=1, precision="no", device="cpu"):
    """What is read of Accelerate's."""
    return SimpleNamespace(
        num_processes=processes, mixed_precision=precision, device=torch.device(device)
    )


def test_the_place_has_its_precision_threads_and_processes():
    threads = torch.get_num_threads()
    assert where(accelerator()) == f"cpu, fp32, threads: {threads}"
    assert where(accelerator(2, "bf16")) == f"cpu, bf16, threads: {threads}, processes: 2"
    assert where(accelerator(1, "fp16", "meta")) == "meta, fp16"


def test_one_process_has_its_own_value():
    value = object()
    assert gathered(accelerator(), value) == [value]


def test_the_loss_of_another_process_is_one_sentence_with_the_remedy():
    with (
        pytest.raises(ProcessLostError, match="has ended, .*, and resume it[.]$") as raised,
        others_alive(accelerator(2), "resume it"),
    ):
        raise RuntimeError(LOST)
    assert str(raised.value.__cause__) == LOST


@pytest.mark.parametrize(("processes", "text"), [(1, LOST), (2, "shapes cannot be multiplied")])
def test_an_error_of_one_s_own_passes_as_it_is(processes, text):
    error = RuntimeError(text)
    with pytest.raises(RuntimeError) as raised, others_alive(accelerator(processes)):
        raise error
    assert raised.value is error
