"""The bank: sums of dense, sparse and half-precision gradients, and what `.grad` gets."""

from __future__ import annotations

import pytest
import torch
from toy import (
    Trunk,
    assert_grads_close,
    grads,
    losses_of,
    trunk,
)

import gradaccord
from gradaccord.core.bank import Bank, Rows, deliver, is_finite, rows_of_sparse, sums_up, weighted_sum


def test_13_sparse_embedding_gradients():
    dense, sparse = trunk(rows=3000), trunk(rows=3000, sparse=True)
    sparse.load_state_dict(dense.state_dict())
    for model in (dense, sparse):
        gradaccord.PCGrad(model).backward(losses_of(model, rows=3000))
    assert sparse.words.weight.grad.is_sparse
    assert_grads_close(grads(sparse), grads(dense))
    optimizer = torch.optim.SparseAdam([sparse.words.weight], lr=0.1)
    optimizer.step()


def test_embedding_rows_are_stored_sparsely_and_change_nothing():
    small, large = Trunk(rows=3000).double(), Trunk(rows=3000).double()
    large.load_state_dict(small.state_dict())
    listed = list(large.named_parameters())
    method = gradaccord.PCGrad(small)
    plain = gradaccord.PCGrad([(n, p) for n, p in listed])
    assert method.parameters.embeddings == {0}
    bank, _ = method.task_gradients.of(losses_of(small, rows=3000))
    assert all(isinstance(task[0], Rows) and len(task[0].index) <= 28 for task in bank.gradients)
    object.__setattr__(plain.parameters, "embeddings", frozenset())  # the dense way
    reports = method.backward(losses_of(small, rows=3000)), plain.backward(losses_of(large, rows=3000))
    torch.testing.assert_close(reports[0].gram, reports[1].gram, rtol=1e-12, atol=1e-15)
    assert_grads_close(grads(small), grads(large))


def rows_of(dense, *index, sparse=False):
    index = torch.tensor(index)
    return Rows(index, dense[index].clone(), dense.shape, sparse)


def test_the_weighted_sum_is_that_of_flat_vectors_whatever_the_form():
    torch.manual_seed(0)
    dense, touched = (
        torch.randn(2, 9, 3, dtype=torch.float64),
        torch.zeros(2, 9, 3, dtype=torch.float64),
    )
    touched[0, [1, 4]], touched[1, [4, 8]] = torch.randn(2, 2, 3, dtype=torch.float64)
    weights, factors = (0.3, -1.7), (2.0, 0.5)
    scale = [w * f for w, f in zip(weights, factors, strict=True)]

    def total(one, other):
        return scale[0] * one + scale[1] * other

    bank = Bank()
    rows = rows_of(touched[0], 1, 4), rows_of(touched[1], 4, 8)
    for i, (task, factor) in enumerate(zip("ab", factors, strict=True)):
        whole = dense[i].clone()
        columns = [whole, rows[i], [whole.clone(), rows[1]][i], None, [None, whole.clone()][i]]
        bank.add(task, columns, factor, torch.tensor(1.0), 1.0)
    assert bank.reached() == [2, 2, 2, 0, 1]
    found = bank.combine_all([weights] * 5)
    torch.testing.assert_close(found[0], total(*dense))
    assert found[1].index.tolist() == [1, 4, 8]
    torch.testing.assert_close(found[1].dense(), total(*touched))
    torch.testing.assert_close(found[2], total(dense[0], touched[1]))
    assert found[3] is None
    torch.testing.assert_close(found[4], scale[1] * dense[1])
    assert bank.reached() == [0] * 5  # they have left the bank


def test_small_gradients_summed_together_equal_those_summed_alone():
    columns = torch.randn(2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weights = [(1.0, 1.0), (0.5, -2.0), (1.0, 1.0), (0.0, 3.0)]
    bank = Bank()
    for task, own in zip("ab", columns, strict=True):
        bank.add(task, [g.clone() for g in own], 0.7, torch.tensor(0.0), 1.0)
    for found, own, (one, other) in zip(
        bank.combine_all(weights), columns.unbind(1), weights, strict=True
    ):
        torch.testing.assert_close(found, 0.7 * (one * own[0] + other * own[1]))


def test_half_precision_is_summed_in_float32():
    """1 + eps/4 four times is 1 + eps; in bfloat16 each of them is lost."""
    eps = torch.finfo(torch.bfloat16).eps
    terms = [(torch.full((3,), value, dtype=torch.bfloat16), 1.0) for value in (1.0, *[eps / 4] * 4)]
    found = weighted_sum(terms)
    assert found.dtype == torch.bfloat16
    assert found.tolist() == [1 + eps] * 3


def test_the_order_of_tasks_can_be_changed():
    bank = Bank()
    for i, task in enumerate("abc"):
        bank.add(task, [torch.tensor(float(i))], 1.0 + i, torch.tensor(2.0 * i), 3.0 * i)
    other = bank.ordered(["c", "a"])
    assert (other.tasks, other.factors, other.items) == (["c", "a"], [3.0, 1.0], [6.0, 0.0])
    assert [float(loss) for loss in other.losses] == [4.0, 0.0]
    assert [float(g) for (g,) in other.gradients] == [2.0, 0.0]


@pytest.mark.parametrize("spoiled", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.complex64])
def test_one_value_that_is_not_finite_is_seen(dtype, spoiled):
    clean = torch.ones(7, 3, dtype=dtype)
    bad = clean.clone()
    bad[5, 1] = spoiled
    for gradient, finite in ((clean, True), (bad, False)):
        for stored in (gradient, rows_of(gradient, 1, 5), gradient.to_sparse(1)):
            assert bool(is_finite(stored)) is finite
            assert bool(sums_up(stored)) is finite
    assert bool(is_finite(rows_of(bad, 0, 2)))
    assert bool(is_finite(torch.zeros(0, 3)))


def test_large_finite_values_are_finite_though_their_sum_is_not():
    large = torch.full((4,), torch.finfo(torch.float32).max)
    assert not sums_up(large)
    assert is_finite(large)


@pytest.mark.parametrize("sparse", [True, False])
def test_grad_is_sparse_where_autograd_made_it_so(sparse):
    dense = torch.zeros(6, 2, dtype=torch.float64)
    dense[[0, 3]] = torch.tensor([[1.0, -2.0], [3.0, 4.0]], dtype=torch.float64)
    found = deliver(torch.zeros_like(dense), rows_of(dense, 0, 3, sparse=sparse))
    assert found.is_sparse == sparse
    assert torch.equal(found.to_dense() if sparse else found, dense)


def test_a_gradient_sparse_in_more_than_its_rows_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 3\) has 2 sparse dimensions: only row-sparse"):
        rows_of_sparse(torch.ones(2, 3).to_sparse())
