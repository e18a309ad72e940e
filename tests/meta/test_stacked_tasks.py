"""Tasks side by side as channels: one grouped convolution is theirs, and they come apart again."""

from __future__ import annotations

import torch
from torch.nn.functional import conv2d

from gradaccord.meta.network.stacked_tasks import IMAGES, apart, beside, laid, tasks_in

TASKS, COUNT, CHANNELS, FILTERS = 3, 4, 2, 5


def stack() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    images = torch.randn(TASKS, COUNT, CHANNELS, 6, 6, dtype=torch.float64)
    weight = torch.randn(TASKS, FILTERS, CHANNELS, 3, 3, dtype=torch.float64)
    return {IMAGES: images, "weight": weight, "shift": torch.randn(TASKS, FILTERS, dtype=torch.float64)}


def test_a_grouped_convolution_side_by_side_is_every_tasks_own() -> None:
    given = stack()
    images, weight, shift = beside(given, TASKS).values()
    found = apart({IMAGES: conv2d(images, weight, shift, groups=TASKS)}, TASKS)[IMAGES]
    for own, *task in zip(found, *given.values(), strict=True):
        torch.testing.assert_close(own, conv2d(*task), atol=1e-12, rtol=0)


def test_what_is_put_side_by_side_comes_apart_as_it_was() -> None:
    given = stack()
    for name, tensor in apart(beside(given, TASKS), TASKS).items():
        assert torch.equal(tensor, given[name])
    assert beside(given, None) is given
    assert apart(given, None) is given


def test_each_task_has_weights_of_its_own_to_move() -> None:
    shared = stack()["weight"][0]
    weights = laid(shared, TASKS)
    weights[1].zero_()
    assert torch.equal(weights[0], shared)
    assert laid(shared, None).is_contiguous(memory_format=torch.channels_last)
    assert (tasks_in(stack()[IMAGES]), tasks_in(stack()[IMAGES][0])) == (TASKS, None)
