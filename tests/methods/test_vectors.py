"""Vectors over the parameters, of dense parts, rows and nothing, against flat ones."""

from __future__ import annotations

import pytest
import torch
from toy import trunk

import gradaccord
from gradaccord.core.bank import Bank, Rows
from gradaccord.methods.align import vectors

SHAPES = ((3, 2), (6, 2), (6, 2), (4,), (2,))


def made(seed, forms="drn"):
    """A vector: dense, rows or none, then whatever the forms say, and a small dense part."""
    generator = torch.Generator().manual_seed(seed)
    vector = []
    for shape, form in zip(SHAPES, ("d", *forms, "d"), strict=True):
        dense = torch.randn(shape, generator=generator, dtype=torch.float64)
        if form == "r":
            index = torch.randperm(shape[0], generator=generator)[:2].sort().values
            vector.append(Rows(index, dense[index], torch.Size(shape), sparse=False))
        else:
            vector.append(dense if form == "d" else None)
    return vector


def flat(vector):
    whole = [g.dense() if isinstance(g, Rows) else g for g in vector]
    nothing = [torch.zeros(shape, dtype=torch.float64) for shape in SHAPES]
    pieces = [zero if g is None else g for g, zero in zip(whole, nothing, strict=True)]
    return torch.cat([piece.flatten() for piece in pieces])


FORMS = ["drn", "rdd", "rrd", "nnd", "rdn"]


@pytest.mark.parametrize("one", FORMS)
@pytest.mark.parametrize("two", FORMS)
def test_sums_are_those_of_flat_vectors_and_leave_the_second_alone(one, two):
    first, second = made(0, one), made(1, two)
    a, b = flat(first), flat(second)
    torch.testing.assert_close(flat(vectors.combination(first, 2.0, second, -0.5)), 2 * a - 0.5 * b)
    torch.testing.assert_close(flat(first), a)
    vectors.add_(first, second, 3.0)
    torch.testing.assert_close(flat(first), a + 3 * b)
    torch.testing.assert_close(flat(second), b)
    vectors.scale_(first, 0.1)
    torch.testing.assert_close(flat(first), 0.1 * (a + 3 * b))
    torch.testing.assert_close(flat(second), b)


@pytest.mark.parametrize("small", [0, 5, 1 << 12])
def test_dot_products_are_those_of_flat_vectors(small, monkeypatch):
    """Whether small parts are joined or not."""
    monkeypatch.setattr(vectors, "SMALL", small)
    given = [made(i, forms) for i, forms in enumerate(FORMS)]
    gradients = gradaccord.PCGrad(trunk()).task_gradients
    rows = torch.stack([flat(vector) for vector in given])
    torch.testing.assert_close(vectors.products(gradients, *given), rows @ rows.T)


def test_flipped_signs_keep_the_length_of_every_number():
    vector = made(0)
    before = flat(vector)
    vectors.flip_signs_(vector, torch.Generator().manual_seed(3))
    after = flat(vector)
    assert torch.equal(after.abs(), before.abs())
    assert 0 < int((after != before).sum()) < int((before != 0).sum())


def test_a_task_s_gradient_leaves_the_bank_and_nothing_reaches_nothing():
    bank, vector = Bank(), made(0)
    bank.add("a", made(1), 1.0, torch.tensor(1.0), 1.0)
    bank.add("b", vector, 1.0, torch.tensor(1.0), 1.0)
    assert vectors.vector_of(bank, "b") is vector
    assert [len(own) for own in bank.gradients] == [len(SHAPES), 0]
    assert vectors.none_like(SHAPES) == [None] * len(SHAPES)
