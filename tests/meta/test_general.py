"""The general network, and when a faster one takes its place."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from few_shot_toys import Net, batch
from torch.nn import functional as F

import gradaccord.meta.network.general as networks
from gradaccord.meta import MAML
from gradaccord.meta.network.general import general_network


def test_a_fast_network_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()
    images = batch().support[0]
    calls = []

    def scaled(factor: float) -> Any:
        def network(params: Any, inputs: torch.Tensor) -> torch.Tensor:
            calls.append(factor)
            return factor * general_network(model)(params, inputs)

        return lambda _: network

    for factor, used in ((1.0, True), (1.0001, False)):
        monkeypatch.setattr(networks, "fast_network", scaled(factor))
        told = nullcontext() if used else pytest.warns(UserWarning, match="outputs differ by 0.0001")
        with told:
            network = networks.chosen_network(model, images)
        calls.clear()
        network(dict(model.named_parameters()), images)
        assert bool(calls) is used
    monkeypatch.setattr(networks, "fast_network", scaled(1.0))
    calls.clear()
    MAML(model, fast=False).backward(batch())
    assert not calls


def test_a_wrong_second_derivative_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()

    class Careless(torch.autograd.Function):
        """tanh whose gradient is right and is treated as a constant."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return torch.tanh(x)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return gradients[0] * (1 - torch.tanh(x.detach()).square())

    def network(params: Any, inputs: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(inputs, params["conv.weight"], params["conv.bias"], padding=1)
        x = F.batch_norm(x, None, None, params["norm.weight"], params["norm.bias"], training=True)
        return F.linear(Careless.apply(x).flatten(1), params["head.weight"], params["head.bias"])

    monkeypatch.setattr(networks, "fast_network", lambda _: network)
    with pytest.warns(UserWarning, match="second derivatives differ"):
        assert networks.chosen_network(model, batch().support[0]) is not network
