"""AdamW by rows against torch's AdamW with a parameter for each row; clipping; runs by rows."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaccord.train.config import TrainConfig
from gradaccord.train.optimizers import make_optimizer
from gradaccord.train.row_steps import RowAdamW, clippable, steps_rows

OPTIONS = {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}


def sparse(rows, values, shape):
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, shape, check_invariants=True)


def table_and_steps(seed=0, rows=7, width=3, steps=30):
    """A table in float64, and for each step the rows that it has (one of them twice) with gradients."""
    draw = torch.Generator().manual_seed(seed)
    table = torch.randn(rows, width, generator=draw, dtype=torch.float64)
    taken = []
    for step in range(steps):
        count = int(torch.randint(1, rows, (1,), generator=draw))
        seen = torch.randperm(rows - 1, generator=draw)[:count].tolist()  # the last row never
        seen = [*seen, seen[0]] if step % 2 else seen
        values = torch.randn(len(seen), width, generator=draw, dtype=torch.float64)
        taken.append((seen, values * 10 ** (step % 3)))
    return table, taken


def test_every_row_is_a_parameter_of_its_own():
    start, taken = table_and_steps()
    table = nn.Parameter(start.clone())
    rows = [nn.Parameter(row.clone()) for row in start]
    by_rows, oracle = RowAdamW([table], **OPTIONS), torch.optim.AdamW(rows, **OPTIONS)
    for step, (seen, values) in enumerate(taken):
        table.grad = sparse(seen, values, start.shape)
        for row in rows:
            row.grad = None  # which torch's AdamW leaves alone
        for place, value in zip(seen, values, strict=True):
            old = rows[place].grad
            rows[place].grad = value if old is None else old + value
        for optimizer in (by_rows, oracle):
            optimizer.param_groups[0]["lr"] = 0.05 / (1 + step)
            optimizer.step()
        torch.testing.assert_close(table.detach(), torch.stack([*rows]).detach(), rtol=1e-12, atol=0)
    assert torch.equal(table[-1], start[-1])  # neither moved nor decayed


def test_rows_seen_in_every_step_are_stepped_as_the_whole_table():
    start, _ = table_and_steps()
    draw = torch.Generator().manual_seed(1)
    table, whole = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    by_rows, dense = RowAdamW([table], **OPTIONS), torch.optim.AdamW([whole], **OPTIONS)
    for _ in range(20):
        whole.grad = torch.randn(start.shape, generator=draw, dtype=torch.float64)
        table.grad = whole.grad.to_sparse(1)
        by_rows.step()
        dense.step()
    torch.testing.assert_close(table, whole, rtol=1e-12, atol=0)


def test_dense_gradients_are_torchs_own_and_a_saved_state_goes_on_bit_for_bit():
    def made():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(50, 4, sparse=True), nn.Linear(4, 2))
        return model, RowAdamW(model.parameters(), lr=0.1, fused=True)

    def steps(model, optimizer, first, last):
        for step in range(first, last):
            optimizer.zero_grad()
            model(torch.tensor([step % 5, step % 3, 7])).square().sum().backward()
            optimizer.step()

    whole, optimizer = made()
    steps(whole, optimizer, 0, 8)
    part, before = made()
    steps(part, before, 0, 4)
    again, after = made()
    again.load_state_dict(part.state_dict())
    after.load_state_dict(before.state_dict())
    steps(again, after, 4, 8)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    linear = nn.Linear(4, 2)
    linear.load_state_dict(made()[0][1].state_dict())
    own = torch.optim.AdamW(linear.parameters(), lr=0.1, fused=True)
    model, by_rows = made()
    inputs = model[0](torch.tensor([0, 0, 7])).detach()
    for layer, stepped in ((linear, own), (model[1], by_rows)):
        layer(inputs).square().sum().backward()
        stepped.step()
    assert torch.equal(linear.weight, model[1].weight)


def test_clipping_counts_the_rows_of_a_sparse_gradient_once_summed():
    torch.manual_seed(0)
    models = []
    for by_rows in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(10, 4, sparse=by_rows), nn.Linear(4, 2)).double()
        (10 * model(torch.tensor([1, 1, 3, 8])).square().sum()).backward()
        length = nn.utils.clip_grad_norm_(clippable(model.parameters()), 0.5)
        models.append((model, length))
    (dense, expected), (sparse_one, length) = models
    torch.testing.assert_close(length, expected)
    for one, other in zip(dense.parameters(), sparse_one.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad.to_dense())


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("adamw", {}, True),
        ("adamw", {"weight_decay": 0.1, "betas": (0.9, 0.98)}, True),
        ("adamw", {"amsgrad": True}, False),
        ("adam", {}, True),
        ("adam", {"weight_decay": 0.1}, False),  # goes through the moments
        ("sgd", {}, True),
        ("sgd", {"momentum": 0.9}, False),
        ("adafactor", {}, False),
        ("recadam", {"anneal": "constant"}, False),
    ],
)
def test_which_optimisers_step_rows(name, options, expected):
    assert steps_rows(name, options) is expected
    table = nn.Embedding(5, 2, sparse=expected)
    train = TrainConfig(optimizer={"name": name, **options}, lr=1e-4)
    optimizer = make_optimizer(train, table.parameters(), [], by_rows=expected)
    before = table.weight.detach().clone()
    table(torch.tensor([1, 1])).sum().backward()
    optimizer.step()
    moved = (table.weight != before).any(1)
    assert moved[1]
    if expected:
        assert not moved[[0, 2, 3, 4]].any()
    if name == "adam" and expected:
        assert optimizer.param_groups[0]["weight_decay"] == 0
