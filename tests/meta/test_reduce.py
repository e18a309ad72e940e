"""Sums over processes, on one: dtypes, shapes, gradients, errors.

Several processes are in tests/distributed.
"""

from __future__ import annotations

import pytest
import torch

from gradaccord.meta.reduce import SumInGraph, agreed, sum_over_processes


def test_tensors_of_several_types_and_shapes_keep_their_places(group):
    tensors = [
        torch.arange(6.0).view(2, 3),
        torch.tensor([1.0, -2.0], dtype=torch.float64),
        torch.arange(4.0).view(2, 2).t(),
        torch.tensor(5, dtype=torch.int64),
    ]
    before = [tensor.clone() for tensor in tensors]
    sum_over_processes(tensors, group)
    assert all(torch.equal(one, other) for one, other in zip(tensors, before, strict=True))


def test_the_sum_in_a_graph_has_its_gradient(group):
    vector = torch.tensor([0.3, -1.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: SumInGraph.apply(v, group).square(), vector)
    total = SumInGraph.apply(vector, group)
    assert total.data_ptr() != vector.data_ptr()


def test_what_is_agreed_on_is_the_result_and_no_item_is_before_it(group):
    for over in (None, group):
        assert agreed(lambda: [1, 2], over) == ([1, 2], 0)
        assert agreed(lambda: "x", over) == ("x", 0)
        with pytest.raises(ZeroDivisionError):
            agreed(lambda: 1 / 0, over)
