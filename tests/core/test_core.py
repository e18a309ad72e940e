"""The parts of the core on their own: Gram matrix, layers, replay, displaced weights, report, state."""

from __future__ import annotations

import io
import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from toy import Vectors, losses_of, trunk

import gradaccord
from gradaccord.core import gram as gram_module
from gradaccord.core.bank import Rows
from gradaccord.core.displaced import displaced
from gradaccord.core.gram import gram
from gradaccord.core.parameters import Parameters, Partition, layers_of
from gradaccord.core.replay import RandomState


@given(
    st.integers(1, 5),
    st.lists(st.sampled_from(["dense", "rows", "mixed", "none", "some"]), min_size=1, max_size=5),
    st.integers(0, 1000),
    st.sampled_from([1, 7, 64]),
)
@settings(max_examples=60, deadline=None)
def test_gram_equals_the_product_of_flat_vectors(n_tasks, kinds, seed, at_once):
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
    block, gram_module.BLOCK = gram_module.BLOCK, at_once  # many blocks, and a ragged last one
    try:
        found = gram(stored)
    finally:
        gram_module.BLOCK = block
    for i, product in enumerate(found):
        vectors = torch.stack([f[i] for f in flat])
        torch.testing.assert_close(product, vectors @ vectors.T, rtol=1e-10, atol=1e-10)


def test_layers_are_numbered_blocks_or_the_modules_that_hold_parameters():
    names = [f"0.encoder.layer.{i}.mlp.{j}.weight" for i in range(4) for j in range(2)]
    names += ["0.pooler.dense.bias", "1.weight", "scale", "neck.norm.bias"]
    blocks = [f"0.encoder.layer.{i}" for i in range(4) for _ in range(2)]
    assert layers_of(names) == [*blocks, "0", "1", "scale", "neck.norm"]
    assert layers_of(["0.weight", "0.bias", "2.weight"]) == ["0", "0", "2"]  # a plain nn.Sequential


names_of_parameters = st.lists(st.sampled_from("abc012"), min_size=1, max_size=4).map(".".join)


@given(
    st.lists(names_of_parameters, unique=True, min_size=1, max_size=12),
    st.sampled_from(["model", "layer", "tensor"]),
)
@settings(max_examples=50, deadline=None)
def test_a_partition_covers_every_parameter_exactly_once(names, granularity):
    partition = Partition.of(names, granularity)
    assert len(partition.index) == len(names)
    assert set(partition.index) == set(range(len(partition.groups)))
    if granularity == "tensor":
        assert len(partition.groups) == len(names)


def test_names_do_not_depend_on_wrappers():
    model = trunk()
    names = Parameters.of(model).names
    assert Parameters.of(torch.compile(model, backend="eager")).names == names
    model.layers[0] = torch.compile(model.layers[0], backend="eager")
    assert Parameters.of(model).names == names


def test_replay_gives_the_same_masks_and_leaves_the_stream_alone():
    dropout = nn.Dropout(0.5)
    ones = torch.ones(100)
    state = RandomState.capture([ones])
    first = dropout(ones)
    expected = torch.get_rng_state()
    with state.replayed():
        assert torch.equal(dropout(ones), first)
    assert torch.equal(torch.get_rng_state(), expected)
    assert not torch.equal(dropout(ones), first)
    with pytest.raises(ZeroDivisionError), state.replayed():
        raise ZeroDivisionError
    state.restore()
    assert torch.equal(dropout(ones), first)


@pytest.mark.parametrize("fails", [False, True])
def test_displaced_weights_come_back_bit_for_bit(fails):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    weights = [p.detach().clone() for p in model.parameters()]
    buffers = [b.clone() for b in model.buffers()]
    direction = [torch.randn_like(p) if i != 1 else None for i, p in enumerate(model.parameters())]
    try:
        with displaced(list(model.parameters()), direction, 0.37, model.buffers()):
            model(torch.randn(5, 3))
            for p, d, w in zip(model.parameters(), direction, weights, strict=True):
                expected = w if d is None else w + 0.37 * d
                torch.testing.assert_close(p.detach(), expected)
            if fails:
                raise ValueError("in the displaced pass")
    except ValueError:
        assert fails
    assert all(torch.equal(p, w) for p, w in zip(model.parameters(), weights, strict=True))
    assert all(torch.equal(b, o) for b, o in zip(model.buffers(), buffers, strict=True))


def test_report_of_known_gradients():
    rows = torch.tensor([[3.0, 4.0], [-4.0, 3.0], [-3.0, -4.0]], dtype=torch.float64)
    model = Vectors(rows)
    report = gradaccord.Sum(model).backward(model.losses(["x", "y", "z"]))
    torch.testing.assert_close(report.norms, torch.full((3,), 5.0, dtype=torch.float64))
    torch.testing.assert_close(report.gram, rows @ rows.T)
    assert report.pairs == pytest.approx({("x", "y"): 0.0, ("x", "z"): -1.0, ("y", "z"): 0.0})
    assert report.conflicts == pytest.approx(1 / 3)
    assert report.mean_cosine == pytest.approx(-1 / 3)
    floats = report.to_floats()
    assert all(type(value) is float for value in floats.values())
    assert floats["loss/x"] == 1.0
    assert floats["grad_norm/z"] == 5.0
    assert floats["cosine/x~z"] == -1.0
    assert floats["weight/y"] == 1.0
    assert 0 < floats["seconds"] < 10


def test_report_of_one_task_has_no_pairs():
    model = Vectors(torch.ones(1, 2))
    report = gradaccord.Sum(model).backward(model.losses())
    assert math.isnan(report.mean_cosine)
    assert report.conflicts == 0


def make_torchjd(name, **options):
    aggregation = pytest.importorskip("torchjd.aggregation", reason="TorchJD is not installed")
    return lambda model: gradaccord.TorchJD(model, getattr(aggregation, name)(**options))


@pytest.mark.filterwarnings("ignore:.*not DPP:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        gradaccord.Sum,
        gradaccord.PCGrad,
        lambda m: gradaccord.GradVac(m, granularity="layer", beta=0.3),
        gradaccord.GradNorm,
        make_torchjd("GradVacWeighting"),
        make_torchjd("RandomWeighting"),
        make_torchjd("PCDWeighting"),
        make_torchjd("NashMTL", n_tasks=3),
    ],
    ids=["Sum", "PCGrad", "GradVac", "GradNorm", "TorchJD GradVac", "TorchJD Random", "PCD", "Nash"],
)
def test_state_dict_into_a_fresh_instance_continues_bit_equal(make):
    models = trunk(), trunk()

    def step(method, model, seed):
        report = method.backward(losses_of(model, seed=seed))
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
        return report

    methods = [make(model) for model in models]
    for seed in range(4):
        step(methods[0], models[0], seed)
    file = io.BytesIO()
    torch.save({"model": models[0].state_dict(), "method": methods[0].state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)  # nothing but plain tensors and numbers inside
    models[1].load_state_dict(saved["model"])
    methods[1].load_state_dict(saved["method"])
    for seed in range(4, 7):
        reports = [step(method, model, seed) for method, model in zip(methods, models, strict=True)]
        assert torch.equal(reports[0].weights, reports[1].weights)
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(p, q)


def test_every_method_follows_the_protocol():
    model = trunk()
    for make in (
        gradaccord.Sum,
        gradaccord.Mean,
        gradaccord.PCGrad,
        gradaccord.GradVac,
        gradaccord.GradNorm,
    ):
        assert isinstance(make(model), gradaccord.Method)


def test_importing_the_package_imports_torch_at_most():
    code = (
        "import sys, gradaccord; [getattr(gradaccord, n) for n in gradaccord.__all__];"
        "heavy = {'transformers', 'matplotlib', 'typer', 'rich', 'accelerate', 'torchjd', 'numpy.f2py',"
        "'babel', 'sklearn', 'torch.distributed.tensor', 'lightning_fabric'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_listed_once_and_found():
    for name in gradaccord.__all__:
        assert getattr(gradaccord, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'PCgrad'"):
        gradaccord.PCgrad  # noqa: B018


def test_a_sum_without_measurement_is_the_same_gradient_with_the_losses_alone():
    measured, blind = trunk(rows=3000), trunk(rows=3000)
    expected = gradaccord.Sum(measured).backward(losses_of(measured, rows=3000))
    report = gradaccord.Sum(blind, measure=False).backward(losses_of(blind, rows=3000))
    for p, q in zip(measured.parameters(), blind.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad)
    assert torch.equal(report.losses, expected.losses)
    assert torch.isnan(report.gram).all()
    assert report.finite
    assert report.pairs == {}
