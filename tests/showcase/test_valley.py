"""The valley of Yu et al. 2020: losses by hand, and all runs at once against the methods' classes."""

import math
from pathlib import Path

import pytest
import torch

from gradaccord.methods.registry import find_method
from gradaccord.showcase.demo.settings import DemoSettings
from gradaccord.showcase.demo.valley import PICTURE, RATES, STARTS, Valleys, valleys
from gradaccord.showcase.valley import PCGRAD, SUM, Valley, descend, gradients, losses, start_of


def test_the_losses_are_those_of_the_formula():
    at = Valley((0.5, -3.0))
    assert at.first().item() == pytest.approx(20 * math.log(abs(0.25 + math.tanh(-3))))
    assert at.second().item() == pytest.approx(25 * math.log(abs(0.25 - math.tanh(-3) + 2)))


@pytest.mark.parametrize("point", [(0.5, -3.0), (1.0, 0.3), (-2.0, 4.0), (2 * math.tanh(1), -1.0)])
def test_losses_and_gradients_of_many_points_are_those_of_autograd(point):
    """The last one is at the bottom of the first valley, where its loss is cut off."""
    model = Valley(point)
    at = model.at.detach()
    for i, loss in enumerate((model.first(), model.second())):
        torch.testing.assert_close(losses(at)[i], loss.detach())
        (expected,) = torch.autograd.grad(loss, model.at)
        torch.testing.assert_close(gradients(at)[i], expected)


@pytest.mark.parametrize("method", [SUM, PCGRAD])
def test_all_runs_at_once_go_where_the_classes_go(method):
    rates, seeds, steps = (0.01, 0.1), (0, 3), 40  # in a steep valley rounding errors grow
    found = descend(method, seeds, rates, steps)
    assert found.shape == (1 + steps, len(rates), len(seeds), 2)
    for i, rate in enumerate(rates):
        for j, seed in enumerate(seeds):
            model = Valley(start_of(seed))
            optimizer = torch.optim.Adam(model.parameters(), rate)
            rule = find_method(method).build(model, optimizer, tasks=("first", "second"))
            for step in range(steps):
                torch.testing.assert_close(found[step, i, j], model.at.detach(), rtol=0, atol=1e-7)
                rule.backward({"first": model.first, "second": model.second})
                optimizer.step()
                rule.after_step()
                optimizer.zero_grad()


def test_pcgrad_moves_along_the_valley_and_the_sum_does_not():
    """At the rate 0.03 a quarter of the demo's steps is enough to tell."""
    ends = {m: losses(descend(m, range(8), [0.03], 5000)[-500:, 0]) for m in (SUM, PCGRAD)}
    learned = {m: int((own[..., 1].median(0).values < 0).sum()) for m, own in ends.items()}
    assert learned[SUM] == 0
    assert learned[PCGRAD] >= 4


def test_the_part_of_the_demo_is_run_once_and_then_read(tmp_path: Path):
    settings = DemoSettings(tmp_path, fast=True)
    found = valleys(settings)
    assert (found.starts, found.rates, found.steps) == (STARTS, RATES, 2000)
    assert Valleys.read(tmp_path / "valley") == found
    picture = tmp_path / "valley" / PICTURE
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.write_bytes(b"kept")
    assert valleys(settings) == found
    assert picture.read_bytes() == b"kept"
