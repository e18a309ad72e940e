"""Sequential Reptile on quadratics."""

from __future__ import annotations

import pytest
import torch
from trajectory_problems import Bowls, descend

from gradaccord.methods.trajectory.sequential_reptile import SequentialReptile

pytestmark = pytest.mark.usefixtures("one_thread")


def test_sequential_reptile_is_the_closed_form_on_quadratics() -> None:
    bowls = Bowls()
    tasks = ["a", "c", "b", "a", "c", "c"]
    phi = bowls.x.detach().clone()
    for _ in range(2):
        phi = phi + 0.3 * (bowls.after(phi, tasks) - phi)
    descend(
        bowls, SequentialReptile(bowls, inner_steps=6, outer_lr=0.3, optimizer_state="keep"), tasks * 2
    )
    torch.testing.assert_close(bowls.x.detach(), phi, rtol=1e-13, atol=1e-14)
