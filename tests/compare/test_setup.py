"""Before the first run: every method is built on the real model, and mistakes are reported."""

import re

import pytest
from train_toy import said

from gradaccord.cli.list import methods as listed
from gradaccord.compare.budget import EqualBudget
from gradaccord.compare.setup import BASE_MB, Size, check_builds
from gradaccord.compare.specs import Spec, with_controls
from gradaccord.methods.registry import METHODS
from gradaccord.train.problem import load_problem

BUDGET = EqualBudget(kind="gradients", amount=8)


@pytest.fixture(scope="module")
def base(configured):
    return configured()


@pytest.fixture(scope="module")
def problem(base):
    return load_problem(base)


def rows():
    """What `gradaccord list methods` prints: name -> its text, and the options below it."""
    names, texts = ([str(cell) for cell in column.cells] for column in listed().columns)
    found = {}
    for name, text in zip(names, texts, strict=True):
        if name:
            last = name
            found[name] = (text, "")
        else:
            found[last] = (found[last][0], text)
    return found


def test_every_example_that_list_methods_prints_can_be_built(base, problem):
    examples = [e for text, _ in rows().values() for e in re.findall(r"e\.g\. ([^\s()]+)", text)]
    assert any(example.startswith("torchjd:weighting=") for example in examples)
    assert {"sum+smart", "sum+recadam"} <= set(examples)
    controls = re.findall(r"compare with ([^\s;)]+)", " ".join(text for text, _ in rows().values()))
    assert "sequential_reptile:outer_lr=1" in controls
    specs = with_controls(map(Spec.parse, [*examples, *controls]), Spec.parse("sum"))
    check_builds(base, specs, BUDGET, problem)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "torchjd"])
def test_the_options_that_list_methods_prints_can_be_typed(base, problem, name):
    options = rows()[name][1]
    spec = Spec.parse(f"{name}:{options.replace(', ', ',')}" if options else name)
    assert options
    check_builds(base, [spec], BUDGET, problem)


@pytest.mark.parametrize("method", [*METHODS, "stl", "sum+smart", "pcgrad+swep", "dotprod+recadam"])
def test_every_method_and_its_controls_can_be_built_and_leave_the_model_as_it_is(base, problem, method):
    before = {name: value.clone() for name, value in problem.model.state_dict().items()}
    spec = Spec.parse("torchjd:weighting=UPGrad" if method == "torchjd" else method)
    check_builds(base, [*spec.controls(), spec], BUDGET, problem)
    after = problem.model.state_dict()
    assert all(value.equal(after[name]) for name, value in before.items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in problem.model.modules())
    assert all(p.grad is None for p in problem.model.parameters())


def test_memory_is_that_of_the_method(configured):
    """Weights, a gradient, two moments and activations; then what the method keeps of three tasks."""
    size = Size(weights_mb=100.0, tasks=3)
    copies = {"sum": 2, "stl": 0, "sequential": 0, "sam": 1, "averaged": 3}
    for name, kept in copies.items():
        assert size.memory_mb(configured(method=name)) == pytest.approx(BASE_MB + 150 * (5 + kept))


WRONG = [
    "dotprod:mode=exat",
    "dotprod:weight=much",
    "dotprod:every=1",
    "gradvac:beta=2",
    "gradnorm:layer=nowhere",
    "gradnorm:initial_losses=3",
    "pcgrad:granularity=word",
    "sequential_reptile:outer_lr=2",
    "multitask_reptile:inner_steps=few",
    "sam:radius=-1",
    "torchjd:weighting=CAGard",
    "torchjd:weighting=CAGrad",  # without its c
    "torchjd:weighting=CAGrad,c=-1",
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_option_is_told_with_its_method_before_any_run(base, problem, wrong):
    with pytest.raises(ValueError) as error:  # some are told even before the model is loaded
        check_builds(base, [Spec.parse(wrong)], BUDGET, problem)
    name, option = re.match(r"(\w+):(\w+)=", wrong).groups()
    assert name in str(error.value) or "weighting" in str(error.value)
    assert option in str(error.value)
    assert "\n" not in str(error.value)


def test_a_comparison_with_a_wrong_option_starts_no_run(written, tmp_path, capsys):
    out = tmp_path / "compared"
    arguments = ["--methods", "pcgrad;gradvac:beta=2", "--seeds", 1, "--out", out]
    wrong = said(capsys, "compare", written(), *arguments)
    assert (
        "The method 'gradvac:beta=2' cannot be built: `beta` is 2.0: it must lie between 0 and 1"
        in wrong
    )
    assert not list(out.glob("*/seed-*"))


def test_a_sampler_that_does_not_suit_a_method_is_told_before_any_run(written, tmp_path, capsys):
    out = tmp_path / "compared"
    file = written(sampler={"name": "weighted", "weights": {"nobody": 1.0}})
    wrong = said(capsys, "compare", file, "--methods", "dotprod", "--seeds", 1, "--out", out)
    assert (
        "cannot be built: `sampler.weights` names the task 'nobody': there are film, bank, long"
        in wrong
    )
    assert not list(out.glob("*/seed-*"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "pcgard"], "The method 'pcgard' is unknown: did you mean 'pcgrad'?"),
        (["--methods", "dotprod:wieght=1"], "has no option 'wieght': did you mean 'weight'?"),
        (["--methods", "sum+smrt"], "adds 'smrt': only smart, swep, recadam can be added"),
        (["--methods", ","], "`--methods` is empty"),
        (["--seeds", "0"], "Invalid value for '--seeds'"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(file, tmp_path, capsys, arguments, sentence):
    assert sentence in said(capsys, "compare", file, "--out", tmp_path / "none", *arguments)
    assert not (tmp_path / "none").exists()
