"""The Gram matrix against flat vectors, in precision enough for millions of values."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradaccord.core import gram as gram_module
from gradaccord.core.bank import Rows
from gradaccord.core.gram import gram


def test_07_float32_dot_products_over_millions_of_values():
    torch.manual_seed(0)
    long = [torch.randn(12_600_000) + 0.1 for _ in range(2)]
    exact = torch.stack([g.double() for g in long])
    exact = exact @ exact.T
    found = gram([[long[0]], [long[1]]])[0]
    assert ((found - exact) / exact).abs().max() < 1e-6
    same = gram([[long[0]], [long[0]]])[0]
    assert abs(same[0, 1] / (same[0, 0] * same[1, 1]).sqrt() - 1) < 1e-6  # a vector with itself


@given(
    st.integers(1, 5),
    st.lists(st.sampled_from(["dense", "rows", "mixed", "none", "some"]), min_size=1, max_size=5),
    st.integers(0, 1000),
    st.sampled_from([1, 7, 64]),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_gram_equals_the_product_of_flat_vectors(n_tasks, kinds, seed, piece, pieces):
    """Whatever the form of the gradients: dense, touched rows, or absent."""
    torch.manual_seed(seed)
    stored: list[list] = [[] for _ in range(n_tasks)]
    flat: list[list] = [[] for _ in range(n_tasks)]
    for kind in kinds:
        rows, width = 40, int(torch.randint(1, 9, ()))
        for t in range(n_tasks):
            dense = torch.zeros(rows, width, dtype=torch.float64)
            index = torch.randperm(rows)[: int(torch.randint(0, 10, ()))].sort().values
            as_rows = kind == "rows" or (kind == "mixed" and t % 2)
            absent = kind == "none" or (kind == "some" and t % 2)
            if as_rows:
                dense[index] = torch.randn(len(index), width, dtype=torch.float64)
                stored[t].append(Rows(index, dense[index], dense.shape, sparse=False))
            elif absent:
                stored[t].append(None)
            else:
                dense = torch.randn(rows, width, dtype=torch.float64)
                stored[t].append(dense)
            flat[t].append(dense.flatten())
    sizes = {"PIECE": piece, "BLOCK": piece * pieces, "ROWS": 4 * piece, "SUMMED_AT_ONCE": piece}
    before = {name: getattr(gram_module, name) for name in sizes}
    vars(gram_module).update(sizes)  # many blocks, and ragged last ones
    try:
        found = gram(stored)
    finally:
        vars(gram_module).update(before)
    for i, product in enumerate(found):
        vectors = torch.stack([f[i] for f in flat])
        torch.testing.assert_close(product, vectors @ vectors.T, rtol=1e-10, atol=1e-10)
