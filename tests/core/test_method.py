"""The state of every method loads into a fresh instance."""

from __future__ import annotations

import io

import pytest
import torch
from toy import losses_of, trunk

import gradaccord


def make_torchjd(name, **options):
    aggregation = pytest.importorskip("torchjd.aggregation", reason="TorchJD is not installed")
    return lambda model: gradaccord.TorchJD(model, getattr(aggregation, name)(**options))


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        gradaccord.Sum,
        gradaccord.PCGrad,
        lambda m: gradaccord.GradVac(m, granularity="layer", beta=0.3),
        gradaccord.GradNorm,
        make_torchjd("GradVacWeighting"),
        make_torchjd("RandomWeighting"),
        make_torchjd("PCDWeighting"),
        make_torchjd("NashMTL", n_tasks=3),
    ],
    ids=["Sum", "PCGrad", "GradVac", "GradNorm", "TorchJD GradVac", "TorchJD Random", "PCD", "Nash"],
)
def test_state_dict_into_a_fresh_instance_continues_bit_equal(make):
    models = trunk(), trunk()

    def step(method, model, seed):
        report = method.backward(losses_of(model, seed=seed))
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
        return report

    methods = [make(model) for model in models]
    for seed in range(4):
        step(methods[0], models[0], seed)
    file = io.BytesIO()
    torch.save({"model": models[0].state_dict(), "method": methods[0].state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)  # nothing but plain tensors and numbers inside
    models[1].load_state_dict(saved["model"])
    methods[1].load_state_dict(saved["method"])
    for seed in range(4, 7):
        reports = [step(method, model, seed) for method, model in zip(methods, models, strict=True)]
        assert torch.equal(reports[0].weights, reports[1].weights)
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(p, q)
