"""When a term is on."""

from __future__ import annotations

import pytest
import torch
from smart_problems import plain, wrapped
from toy import trunk

from gradaccord.methods.regularize.smart import SMART

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_window_opens_and_closes():
    model = trunk()
    smart = SMART(model, start=1, stop=2)
    on = []
    for _ in range(3):
        on.append(not torch.equal(wrapped(smart, model)(), plain(model)))
        smart.after_step()
    assert on == [False, True, False]
