"""What other tools get wrong when they combine task gradients: one test per failure seen in them.

The failures under DDP (ranks drifting apart) are tested in tests/distributed.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from toy import (
    Trunk,
    Vectors,
    assert_grads_close,
    autograd_of,
    batch,
    grads,
    loss_of,
    losses_of,
    trunk,
)

import gradaccord
from gradaccord.core.bank import Rows
from gradaccord.core.gram import gram
from gradaccord.core.parameters import Partition

CONFLICT = torch.tensor([[1.0, 0.0, 0.5], [-1.0, 1.0, 0.0]], dtype=torch.float64)


class ConflictWithHeads(nn.Module):
    """Two tasks whose trunk gradients conflict, each with a head of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Vectors(CONFLICT)
        self.heads = nn.ParameterDict(
            {t: nn.Parameter(torch.ones(2, dtype=torch.float64)) for t in ("t0", "t1")}
        )

    def losses(self):
        return {
            task: (lambda t=task, f=loss: f() + 3 * self.heads[t].sum())
            for task, loss in self.trunk.losses().items()
        }


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac], ids=["PCGrad", "GradVac"])
def test_01_heads_projected_together_with_the_trunk(make):
    model = ConflictWithHeads()
    report = make(model).backward(model.losses())
    assert report.conflicts == 1
    assert not torch.equal(model.trunk.weight.grad, CONFLICT.sum(0))  # the trunk is treated,
    for head in model.heads.values():  # the heads are not,
        assert torch.equal(head.grad, torch.full((2,), 3.0, dtype=torch.float64))
    expected = CONFLICT @ CONFLICT.T  # and their gradients are not in the norms
    torch.testing.assert_close(report.gram, expected)


def test_03_one_inf_batch_poisons_the_state():
    model = trunk()
    method = gradaccord.GradVac(model, granularity="layer", engine=torch.amp.GradScaler("cpu"))
    method.backward(losses_of(model))
    before = method.state_dict()
    bad = losses_of(model, seed=1)
    bad["b"] = partial(lambda f: f() * float("inf"), bad["b"])
    report = method.backward(bad)
    assert not report.finite
    assert not all(torch.isfinite(p.grad).all() for p in model.parameters())  # the scaler will see it
    after = method.state_dict()
    assert torch.equal(after["targets"], before["targets"])
    assert torch.equal(after["generator"], before["generator"])
    model.zero_grad()
    assert method.backward(losses_of(model, seed=2)).finite


def test_04_state_that_cannot_be_loaded_or_is_lost_when_tasks_change():
    model = trunk()
    method = gradaccord.GradVac(model, beta=0.5)
    method.backward(losses_of(model))
    kept = method.targets[0, method.tasks.index("a"), method.tasks.index("c")].item()
    assert kept != 0
    two = losses_of(model, seed=1)
    del two["c"]  # c is away for a step
    method.backward(two)
    targets = method.targets[0]
    assert targets[method.tasks.index("a"), method.tasks.index("c")].item() == kept
    fresh = gradaccord.GradVac(model, beta=0.5)
    fresh.load_state_dict(method.state_dict())
    expected = method.backward(losses_of(model, seed=2))
    assert torch.equal(fresh.backward(losses_of(model, seed=2)).weights, expected.weights)


def test_05_moving_average_only_when_the_condition_fires_or_with_beta_one_half():
    model = Vectors(torch.tensor([[1.0, 0.2], [1.0, -0.1]], dtype=torch.float64))  # they agree
    method = gradaccord.GradVac(model)
    report = method.backward(model.losses())
    assert torch.equal(report.weights, torch.ones(2, dtype=torch.float64))  # the condition did not fire
    cosine = float(report.cosines[0, 1])
    assert method.targets[0, 0, 1].item() == pytest.approx(0.01 * cosine)
    assert method.targets[0, 1, 0].item() == pytest.approx(0.01 * cosine)


class Attention(nn.Module):
    """A module that holds parameters directly (in_proj_weight) beside submodules that hold others."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.heads = nn.ModuleDict({t: nn.Linear(4, 1) for t in "ab"})

    def loss(self, task: str, seed: int) -> torch.Tensor:
        x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(seed)) * self.scale
        return self.heads[task](self.attention(x, x, x)[0]).square().mean()


@pytest.mark.parametrize("granularity", ["model", "layer", "tensor"])
def test_06_per_layer_that_skips_parameters_held_directly_by_a_module(granularity):
    torch.manual_seed(0)
    model = Attention()
    method = gradaccord.GradVac(model, granularity=granularity)
    assert min(method.partition.index) == 0  # every parameter has a group
    method.backward({t: partial(model.loss, t, i) for i, t in enumerate("ab")})
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_06_groups_that_overlap_or_leave_a_shared_parameter_out():
    names = ["layers.0.weight", "layers.1.weight", "heads.a.weight"]
    with pytest.raises(ValueError, match=r"'layers.0.weight' into two groups, 'one' and 'two'"):
        Partition.of(names, {"one": ["layers"], "two": ["layers.0"]})
    model = trunk()
    method = gradaccord.PCGrad(model, granularity={"trunk": ["layers"]})
    with pytest.raises(ValueError, match="leaves out the shared parameter 'words.weight'"):
        method.backward(losses_of(model))
    assert all(p.grad is None for p in model.parameters())


def test_07_float32_dot_products_over_millions_of_values():
    torch.manual_seed(0)
    long = [torch.randn(12_600_000) + 0.1 for _ in range(2)]
    exact = torch.stack([g.double() for g in long])
    exact = exact @ exact.T
    found = gram([[long[0]], [long[1]]])[0]
    assert ((found - exact) / exact).abs().max() < 1e-6
    same = gram([[long[0]], [long[0]]])[0]
    assert abs(same[0, 1] / (same[0, 0] * same[1, 1]).sqrt() - 1) < 1e-6  # a vector with itself


def naive_pcgrad(rows: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(rows[0])
    for i, others in enumerate(order.tolist()):
        projected = rows[i].clone()
        for j in others:
            dot = projected @ rows[j]
            if dot < 0:
                projected -= dot / (rows[j] @ rows[j]) * rows[j]
        total += projected
    return total


def test_08_projecting_on_itself_or_on_projected_gradients_or_giving_the_mean():
    from gradaccord.methods.combine.combination import projection_order

    torch.manual_seed(1)
    rows = torch.randn(5, 4, dtype=torch.float64)
    for reduction, divisor in (("sum", 1), ("mean", 5)):
        model = Vectors(rows)
        order = projection_order(5, torch.Generator().manual_seed(7))
        gradaccord.PCGrad(model, seed=7, reduction=reduction).backward(model.losses())
        torch.testing.assert_close(model.weight.grad, naive_pcgrad(rows, order) / divisor)
    order = projection_order(6, torch.Generator().manual_seed(0))
    assert all(i not in row for i, row in enumerate(order.tolist()))


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac, gradaccord.GradNorm])
def test_09_zero_gradient_of_one_task(make):
    rows = torch.tensor([[1.0, 2.0], [0.0, 0.0], [-2.0, 1.0]], dtype=torch.float64)
    model = Vectors(rows)
    method = make(model)
    for _ in range(3):
        report = method.backward(model.losses())
        assert torch.isfinite(model.weight.grad).all()
        assert torch.isfinite(report.weights).all()
    assert all(v == v for k, v in report.to_floats().items() if k != "mean_cosine")
    assert ("t0", "t1") not in report.pairs


def test_10_surgery_on_grad_after_one_summed_backward():
    """Our API takes callables: a tensor that was summed already is refused, naming the task."""
    model = trunk()
    losses = losses_of(model)
    with pytest.raises(TypeError, match="Task 'a' is given as a tensor: pass a callable"):
        gradaccord.PCGrad(model).backward({"a": losses["a"](), "b": losses["b"]()})


def test_11_graph_kept_where_every_task_has_its_own_batch():
    model = trunk()
    kept: dict[str, torch.Tensor] = {}

    def keeping(task, loss):
        kept[task] = loss()
        return kept[task]

    losses = {t: partial(keeping, t, f) for t, f in losses_of(model).items()}
    gradaccord.PCGrad(model).backward(losses)
    for loss in kept.values():
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


@pytest.mark.parametrize("make", [gradaccord.PCGrad, gradaccord.GradVac])
def test_12_random_order_from_the_global_generator(make):
    model = trunk()
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        make(model, seed=5).backward(losses_of(model))
        assert torch.equal(torch.get_rng_state(), before)
        results.append(model.layers[0].weight.grad.clone())
    assert torch.equal(*results)  # the global seed has no say in it


def test_13_sparse_embedding_gradients():
    dense, sparse = trunk(rows=3000), trunk(rows=3000, sparse=True)
    sparse.load_state_dict(dense.state_dict())
    for model in (dense, sparse):
        gradaccord.PCGrad(model).backward(losses_of(model, rows=3000))
    assert sparse.words.weight.grad.is_sparse
    assert_grads_close(grads(sparse), grads(dense))
    optimizer = torch.optim.SparseAdam([sparse.words.weight], lr=0.1)
    optimizer.step()


class Tied(nn.Module):
    """A language model whose decoder is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(2500, 6)
        self.layer = nn.Linear(6, 6)
        self.decoder = nn.Linear(6, 2500, bias=False)
        self.decoder.weight = self.words.weight

    def forward(self, tokens: torch.Tensor, task: str) -> torch.Tensor:
        return self.decoder(torch.tanh(self.layer(self.words(tokens).mean(1))))


def test_13_tied_weights():
    torch.manual_seed(0)
    model = Tied().double()
    losses = losses_of(model, tasks=("a", "b"), rows=2500)
    report = gradaccord.Sum(model).backward(losses)
    expected = autograd_of(model, sum(loss() for loss in losses.values()))
    assert_grads_close(grads(model), expected)
    assert len(report.norms) == 2
    gradaccord.PCGrad(model).backward(losses)


@pytest.mark.parametrize(
    "make", [gradaccord.Sum, gradaccord.PCGrad, gradaccord.GradVac, gradaccord.GradNorm]
)
def test_13_varying_number_of_tasks(make):
    model = trunk()
    method = make(model)
    for tasks in (("a", "b"), ("c",), ("a", "b", "c"), ("c", "b"), ("a",)):
        report = method.backward(losses_of(model, tasks=tasks))
        assert report.tasks == tasks


def test_14_stale_grad_leaking_into_the_first_task():
    clean, stale = trunk(), trunk()
    for p in stale.parameters():
        p.grad = torch.full_like(p, 7.0)
    reports = [gradaccord.PCGrad(m).backward(losses_of(m)) for m in (clean, stale)]
    assert torch.equal(reports[0].gram, reports[1].gram)
    for name, p in clean.named_parameters():
        assert torch.equal(p.grad, stale.get_parameter(name).grad)


def test_15_loss_multiplied_by_the_number_of_micro_batches():
    """Micro-batches of unequal size give the gradient and the loss of the whole batch."""
    whole, cut = trunk(), trunk()
    data = {t: batch(i, size=11) for i, t in enumerate("abc")}

    def counted(task, tokens, labels):
        return loss_of(cut, task, tokens, labels), len(labels)

    pieces = {
        t: [partial(counted, t, x[a:b], y[a:b]) for a, b in ((0, 2), (2, 9), (9, 11))]
        for t, (x, y) in data.items()
    }
    expected = gradaccord.GradVac(whole).backward(
        {t: partial(loss_of, whole, t, *xy) for t, xy in data.items()}
    )
    report = gradaccord.GradVac(cut).backward(pieces)
    torch.testing.assert_close(report.losses, expected.losses)
    torch.testing.assert_close(report.gram, expected.gram)
    assert_grads_close(grads(cut), grads(whole))


def test_15_micro_batches_without_counts_are_averaged():
    model = trunk()
    calls = [partial(loss_of, model, "a", *batch(i)) for i in range(3)]
    gradaccord.Sum(model).backward({"a": calls})
    expected = autograd_of(model, sum(call() for call in calls) / 3)
    assert_grads_close(grads(model), expected)


def test_16_gradnorm_with_negative_losses_inverts_its_rule():
    model = trunk()
    losses = losses_of(model)
    method = gradaccord.GradNorm(model)
    before = method.state_dict()
    losses["b"] = partial(lambda f: f() - 50, losses["b"])
    with pytest.raises(ValueError, match="Task 'b' has the loss -4.*positive"):
        method.backward(losses)
    assert all(p.grad is None for p in model.parameters())
    assert method.state_dict()["weights"] == before["weights"]
    with pytest.raises(ValueError, match="Task 'a' has the loss -1"):
        gradaccord.GradNorm(model, initial_losses={"a": -1.0})


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
