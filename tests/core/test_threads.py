"""One thread for a while, as many as before afterwards."""

from __future__ import annotations

from contextlib import suppress

import torch

from gradaccord.core.threads import one_thread


def test_threads_are_put_back_also_after_an_error() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with suppress(KeyError), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
