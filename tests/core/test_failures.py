"""What a process that fails leaves for the others, and which errors are but a lost peer's."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401 - enters the backend "fake"

from gradaccord.core.failures import ProcessFailedError, alone, is_broken, message_of, take_back

LOST = RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1")


@pytest.fixture
def two():
    """Process 0 of two, whose collectives do nothing; gives the store that both would see."""
    store = dist.HashStore()
    dist.init_process_group("fake", store=store, rank=0, world_size=2)
    yield dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()


def test_a_message_has_the_kind_of_error_and_its_notes():
    error = ValueError("too long")
    assert message_of(error) == "ValueError: too long"
    error.__notes__ = ["in task 'b'", "of step 3"]
    assert message_of(error) == "ValueError: too long in task 'b' of step 3"


@pytest.mark.parametrize(
    ("error", "broken"),
    [
        (LOST, True),
        (RuntimeError("NCCL error: unhandled system error"), True),
        (dist.DistBackendError("timed out"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("connection reset"), False),
        (ProcessFailedError(1, 2, "RuntimeError: connection reset"), False),
    ],
)
def test_a_lost_peer_is_told_from_an_error_of_one_s_own(error, broken):
    assert is_broken(error) is broken


def test_an_error_of_one_s_own_is_left_for_the_others_and_can_be_taken_back(two):
    error = OSError("disk full")
    assert alone(error) is error
    assert two.get("gradaccord/failed/0") == b"OSError: disk full"
    take_back()
    assert not two.check(["gradaccord/failed/0"])


def test_a_lost_peer_s_own_words_are_raised_in_place_of_the_lost_connection(two):
    assert alone(LOST) is LOST  # it left none
    two.set("gradaccord/failed/1", "OSError: disk full")
    found = alone(LOST)
    assert isinstance(found, ProcessFailedError)
    assert str(found) == "Process 1 of 2 failed: OSError: disk full"
    assert not two.check(["gradaccord/failed/0"])  # and it is not handed on
