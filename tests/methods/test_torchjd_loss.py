"""TorchJD's scalarizers by name: their own gradient, in a training loop."""

from __future__ import annotations

import pytest
import torch
from toy import losses_of, trunk
from weigh_problems import assert_same, by_hand, trained

import gradaccord
from gradaccord.methods.registry import METHODS
from gradaccord.methods.weigh.torchjd_loss import OWN

scalarization = pytest.importorskip("torchjd.scalarization", reason="the oracle is not installed")

ARGUMENTS = {  # of the scalarizers that need some
    "Constant": {"weights": [1.0, 2.0, 0.5]},
    "COSMOS": {"lambda_": 0.5, "weights": [1.0, 2.0, 0.5]},
    "PBI": {"theta": 0.7, "weights": [1.0, 2.0, 0.5]},
    "STCH": {"mu": 0.3},
}
NAMES = [n for n in scalarization.__all__ if n not in (*OWN, "Scalarizer")]


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("Random", "UW", "IMTLL")])
def test_thirty_steps_equal_descent_on_the_scalarizer_itself(name):
    given = ARGUMENTS.get(name, {})
    tensors = {k: torch.tensor(v).double() if isinstance(v, list) else v for k, v in given.items()}
    expected = by_hand(getattr(scalarization, name)(**tensors), shared=True)
    assert_same(trained(lambda m: gradaccord.TorchJDLoss(m, name, **given), shared=True), expected)


@pytest.mark.parametrize("name", ["UW", "IMTLL"])
def test_thirty_steps_equal_joint_descent_where_it_learns(name):
    scalarizer = getattr(scalarization, name)(3).double()
    own = torch.optim.SGD(scalarizer.parameters(), lr=0.2)

    def scalar(losses):
        own.step()  # with the gradient of the step before
        own.zero_grad()
        return scalarizer(losses)

    expected = by_hand(scalar, shared=True)
    assert_same(trained(lambda m: gradaccord.TorchJDLoss(m, name, lr=0.2), shared=True), expected)


def test_uw_is_uncertainty_weighting():
    found = trained(lambda m: gradaccord.TorchJDLoss(m, "UW", lr=0.2), shared=False)
    assert_same(found, trained(lambda m: gradaccord.UncertaintyWeighting(m, lr=0.2), shared=False))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_an_option_and_can_be_built(name):
    entry = METHODS["torchjd_loss"]
    options = {"scalarizer": name.lower(), **ARGUMENTS.get(name, {})}
    method = entry.build(trunk(), None, tasks=("a", "b", "c"), **options)
    assert type(method.module).__name__ == name
    weights = method.weigh({"a": 1.0, "b": 2.0, "c": 3.0})
    assert list(weights) == ["a", "b", "c"]


def test_random_draws_are_the_methods_own():
    method = gradaccord.TorchJDLoss(trunk(), "Random", seed=3)
    before = torch.get_rng_state()
    drawn = [method.weigh({"a": 1.0, "b": 1.0}) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before)
    assert drawn[0] != drawn[1]
    assert gradaccord.TorchJDLoss(trunk(), "Random", seed=3).weigh({"a": 1.0, "b": 1.0}) == drawn[0]


def test_values_belong_to_the_tasks_as_declared():
    method = gradaccord.TorchJDLoss(trunk(), "Constant", weights=[1, 2, 5], tasks=("c", "a", "b"))
    assert method.weigh({"a": 1.0, "b": 1.0, "c": 1.0}) == {"c": 1.0, "a": 2.0, "b": 5.0}


def test_after_a_first_step_that_failed_other_tasks_may_come():
    model = trunk()
    method = gradaccord.TorchJDLoss(model, "IMTLL")
    bad = losses_of(model, "ab")
    with pytest.raises(ValueError, match="Task 'b' has the loss nan"):
        method.backward(bad | {"b": lambda: bad["b"]() * float("nan")})
    with pytest.raises(ZeroDivisionError):
        method.backward(bad | {"b": lambda: 1 / 0})
    assert method.module is None
    assert method.backward(losses_of(model)).tasks == ("a", "b", "c")
    assert method.tasks == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda m: gradaccord.TorchJDLoss(m, "FAMO"), ValueError, "use the method 'famo'"),
        (lambda m: gradaccord.TorchJDLoss(m, "PBY", theta=1), ValueError, "did you mean 'PBI'"),
        (lambda m: gradaccord.TorchJDLoss(m, "Mean", lr=0.1), ValueError, "Mean learns nothing"),
        (lambda m: gradaccord.TorchJDLoss(m, "STCH"), ValueError, "needs the option `mu`"),
        (lambda m: gradaccord.TorchJDLoss(m, "STCH", mu=-1.0), ValueError, "cannot be made"),
        (lambda m: gradaccord.TorchJDLoss(m, "Mean", mu=1.0), ValueError, "has no option 'mu'"),
        (
            lambda m: gradaccord.TorchJDLoss(m, "Constant", weights=[1, 2], tasks="abc"),
            TypeError,
            "`tasks` is 'abc': give a list",
        ),
        (
            lambda m: gradaccord.TorchJDLoss(m, "Constant", weights=[1, 2], tasks=("a", "b", "c")),
            ValueError,
            r"`weights` has 2 values, and there are 3 tasks \(a, b, c\): give one for each",
        ),
    ],
)
def test_what_it_refuses(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make(trunk())


def test_a_weight_that_is_not_finite_and_an_absent_task_are_refused():
    method = gradaccord.TorchJDLoss(trunk(), "GeometricMean")
    for losses, shown in (({"a": -1.0, "b": 1.0}, "-1"), ({"a": 0.0, "b": 1.0}, "0")):
        said = (
            rf"GeometricMean has no slope at the losses {shown} \(a\), 1 \(b\): shift .*scalarizer\.$"
        )
        with pytest.raises(ValueError, match=said):
            method.weigh(losses)
    assert method.weigh({"a": 2.0}) == pytest.approx({"a": 1.0})
    method = gradaccord.TorchJDLoss(trunk(), "IMTLL", tasks=("a", "b"))
    with pytest.raises(ValueError, match="IMTLL values for a, b: give these in every step"):
        method.weigh({"a": 1.0})
