"""Sine waves."""

from __future__ import annotations

import torch

from gradaccord.meta.episodes.sinusoid import Sinusoids


def test_waves_lie_on_sines_and_go_on_where_they_stopped():
    waves = Sinusoids(shots=5, queries=40, tasks=30, dtype=torch.float64, seed=2)
    tasks = next(waves)
    assert tasks.support.shape == (30, 5, 1)
    for task in tasks:
        x = torch.cat([task.support, task.query]).squeeze(1)
        y = torch.cat([task.support_labels, task.query_labels]).squeeze(1)
        basis = torch.stack([x.sin(), x.cos()], 1)  # A sin(x + p) = A cos p sin x + A sin p cos x
        fit = torch.linalg.lstsq(basis, y[:, None]).solution
        assert float((basis @ fit - y[:, None]).abs().max()) < 1e-9
        assert 0.1 <= float(fit.norm()) <= 5.0
        assert float(fit[1]) >= -1e-9  # the phase is in [0, pi]
    state = waves.state_dict()
    expected = next(waves)
    fresh = Sinusoids(shots=5, queries=40, tasks=30, dtype=torch.float64)
    fresh.load_state_dict(state)
    assert torch.equal(next(fresh).query_labels, expected.query_labels)
    assert torch.equal(next(Sinusoids()).query, next(Sinusoids()).query)
