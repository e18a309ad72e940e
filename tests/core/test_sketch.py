"""Sketches keep dot products nearly, and sums exactly."""

from __future__ import annotations

import pytest
import torch

from gradaccord.core.bank import Rows
from gradaccord.core.sketch import FOLD, WIDTH, Sketch, next_prime


def sketched(sketch, *gradients):
    found = {}
    for position, gradient in enumerate(gradients):
        sketch.add(found, position, gradient)
    (only,) = found.values()
    return only


def test_dot_products_are_right_on_average_and_spread_as_the_docstring_says():
    n = 40_000
    generator = torch.Generator().manual_seed(0)
    one, other = torch.randn(2, n, generator=generator, dtype=torch.float64)
    other = other + 0.3 * one
    scale = one.norm() * other.norm()
    errors = []
    for seed in range(0, 4000, 20):
        sketch = Sketch(seed, [one], [0])
        errors.append((sketched(sketch, one) @ sketched(sketch, other) - one @ other) / scale)
    errors = torch.stack(errors)
    expected = (n / FOLD) ** -0.5
    assert abs(errors.mean()) < 4 * expected / len(errors) ** 0.5
    assert 0.7 * expected < errors.std() < 1.4 * expected


def test_large_numbers_in_one_column_do_not_spoil_it():
    """Folded into a multiple of 384, the outlier column of a transformer would meet itself alone."""
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(2, 12, 384, 384, generator=generator)
    matrices[..., 7] *= 60
    one, other = matrices
    exact = (one * other).sum() / (one.norm() * other.norm())
    for seed in range(0, 100, 20):
        sketch = Sketch(seed, list(one), [0] * 12)
        found = sketched(sketch, *one) @ sketched(sketch, *other) / (one.norm() * other.norm())
        assert abs(found - exact) < 0.02


def test_sketches_of_sums_are_sums_of_sketches():
    one, other = torch.randn(2, 3 * FOLD * WIDTH // 2 + 5, dtype=torch.float64)
    sketch = Sketch(1, [one], [0])
    torch.testing.assert_close(
        sketched(sketch, one + 2 * other), sketched(sketch, one) + 2 * sketched(sketch, other)
    )


def test_every_number_counts_once_with_a_sign():
    """Of one number at a time the sketch has its absolute value in one place; also at the seams."""
    tensors = [torch.zeros(70), torch.zeros(WIDTH * FOLD + 3), torch.zeros(5, 3)]
    sketch = Sketch(2, tensors, [0, 0, 0])
    for position, number in [(0, 0), (0, 69), (1, 0), (1, WIDTH), (1, WIDTH * FOLD + 2), (2, 14)]:
        gradient = tensors[position].clone()
        gradient.view(-1)[number] = 3.0
        found = {}
        sketch.add(found, position, gradient)
        (values,) = found.values()
        assert values.abs().max() == 3.0
        assert (values != 0).sum() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_precision_of_a_sketch(dtype):
    gradient = torch.randn(100, dtype=torch.float32).to(dtype)
    found = sketched(Sketch(0, [gradient], [0]), gradient)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert len(found) == next_prime(-(-(200 if dtype.is_complex else 100) // FOLD))


def test_next_prime():
    assert [next_prime(n) for n in (0, 2, 4, 9, 110_592)] == [2, 2, 5, 11, 110_597]


def test_rows_are_sketched_as_the_whole_they_stand_for():
    whole = torch.zeros(50, 4)
    whole[[3, 9]] = torch.randn(2, 4)
    rows = Rows(torch.tensor([3, 9]), whole[[3, 9]], whole.shape, sparse=False)
    sketch = Sketch(0, [whole], [0])
    assert torch.equal(sketched(sketch, rows), sketched(sketch, whole))
