"""Activation checkpoints are refused inside, on this thread, and nowhere else."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gradaccord.meta.network.checkpoint_guard import REFUSAL, recomputation_refused

both = pytest.mark.parametrize("reentrant", [True, False])


def run(reentrant: bool) -> torch.Tensor:
    x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    checkpoint(torch.sin, x, use_reentrant=reentrant).backward()
    return x.grad


@both
def test_a_checkpoint_inside_is_refused_with_the_remedy(reentrant: bool) -> None:
    with recomputation_refused(), pytest.raises(RuntimeError, match="inner loop: switch it off") as e:
        run(reentrant)
    assert str(e.value) == REFUSAL


@both
def test_outside_and_after_an_error_checkpoints_work(reentrant: bool) -> None:
    with pytest.raises(ZeroDivisionError), recomputation_refused():
        raise ZeroDivisionError
    assert float(run(reentrant)) == pytest.approx(float(torch.tensor(0.5).double().cos()), rel=1e-15)


@both
def test_the_end_of_an_inner_region_is_not_that_of_the_outer(reentrant: bool) -> None:
    with recomputation_refused():
        with recomputation_refused():
            pass
        with pytest.raises(RuntimeError, match="activation checkpointing"):
            run(reentrant)


@both
def test_other_threads_go_on(reentrant: bool) -> None:
    found: list[torch.Tensor] = []
    with recomputation_refused():
        thread = threading.Thread(target=lambda: found.append(run(reentrant)))
        thread.start()
        thread.join()
    assert len(found) == 1
