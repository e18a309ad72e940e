"""Three fair budgets, on real runs of the names that come with the package."""

import csv
import json
from types import SimpleNamespace

import pytest
import yaml
from compare_toy import run_here, runs_without_processes, table
from train_toy import said

from gradaccord.compare.budget import EqualBudget, budget_of
from gradaccord.compare.comparison import Comparison
from gradaccord.compare.specs import Spec
from gradaccord.report.page import write_report
from gradaccord.runs.log import read_log
from gradaccord.train.config_file import check_config
from gradaccord.train.problem import load_problem

CONTENT = {
    "model": {"name": "characters", "steps": 2},
    "tasks": {
        "cy": {"data": "cldr/cy", "limit": {"train": 64, "dev": 30, "test": 30}},
        "is": {"data": "cldr/is", "limit": {"train": 32, "dev": 30, "test": 30}},
    },
    "train": {"epochs": 2, "batch_size": 8, "lr": 1e-3, "threads": 1, "evaluate_every": 0.5},
    "probe": {"cosine_batches": 1, "errors": 1},
}
BATCHES = 24  # two epochs of 8 and 4 batches
METHODS = "dotprod:mode=difference;stl"


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GRADACCORD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def problem():
    return load_problem(check_config(CONTENT))


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """kind, settings of `train` -> the folder of a comparison of two methods with one seed."""
    root, done = tmp_path_factory.mktemp("budgets"), {}

    def made(kind, **train):
        if kind not in done:
            content = {**CONTENT, "train": {**CONTENT["train"], **train}}
            (root / f"{kind}.yaml").write_text(yaml.safe_dump(content))
            out = root / kind
            arguments = ["--methods", METHODS, "--no-controls", "--seeds", 1, "--out", out]
            with runs_without_processes():
                run_here("compare", root / f"{kind}.yaml", *arguments, "--budget", kind)
            done[kind] = out
        return done[kind]

    return made


def cost(folder, method):
    name = Spec.parse(method).folder
    return json.loads((folder / name / "seed-0" / "results.json").read_text())["cost"]


def test_at_equal_epochs_all_see_the_same_batches(compared):
    """A pair takes half the steps of single batches, and its third gradient is free."""
    out = compared("epochs")
    plain, pairs, alone = (cost(out, name) for name in ("sum", "dotprod:mode=difference", "stl"))
    assert plain["batches"] == pairs["batches"] == alone["batches"] == BATCHES
    assert (plain["steps"], pairs["steps"], alone["steps"]) == (12, 12, 24)
    assert (plain["gradients"], pairs["gradients"]) == (24, 36)


def test_at_equal_gradients_what_a_pair_takes_more_is_paid_for(compared):
    out = compared("gradients")
    plain, pairs, alone = (cost(out, name) for name in ("sum", "dotprod:mode=difference", "stl"))
    assert plain["gradients"] == pairs["gradients"] == alone["gradients"] == BATCHES
    assert (plain["batches"], pairs["batches"]) == (24, 16)


def test_at_equal_seconds_all_train_as_long_on_the_processor(compared):
    out = compared("seconds", epochs=None, seconds=1.0)
    for method in ("sum", "dotprod:mode=difference", "stl"):
        spent = cost(out, method)
        assert 1.0 <= spent["training_seconds"] < 1.5, method
        assert spent["steps"] > 3
    log = read_log(out / "sum" / "seed-0" / "log.jsonl")
    steps = [record for record in log if record["event"] == "step"]
    shares = [record["share"] for record in steps]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    peak = max(record["lr"] for record in steps)
    assert steps[0]["lr"] < 0.2 * peak  # the warm-up and the decay follow the time that is spent
    assert steps[-1]["lr"] < 0.2 * peak


@pytest.mark.parametrize(
    ("kind", "train", "text"),
    [
        ("epochs", {}, "2 passes over the training data"),
        ("gradients", {}, "24 batch gradients"),
        ("seconds", {"epochs": None, "seconds": 1.0}, "1 processor seconds of training"),
    ],
)
def test_the_budget_is_named_everywhere(compared, kind, train, text):
    out = compared(kind, **train)
    comparison = Comparison.read(out)
    assert comparison.budget == EqualBudget(kind=kind, amount=comparison.budget.amount)
    sentence = comparison.budget.sentence
    assert text in sentence
    assert sentence in (out / "comparison.md").read_text()
    rows = list(csv.DictReader((out / "comparison.csv").read_text().splitlines()))
    assert {row["budget"] for row in rows if row["task"] == "average"} == {text}
    assert sentence in write_report(out).read_text(encoding="utf-8")
    assert all(row["costs"]["processor"] for row in table(out).values())


def test_another_budget_in_the_same_folder_is_refused(compared, capsys):
    out = compared("epochs")
    file = out.parent / "epochs.yaml"
    wrong = said(capsys, "compare", file, "--methods", "pcgrad", "--out", out, "--seeds", 1)
    assert "The budget is 24 batch gradients, and" in wrong
    assert "holds runs of 2 passes over the training data: ask for the same budget" in wrong
    assert not (out / "pcgrad").exists()


@pytest.mark.parametrize(
    ("train", "kind", "amount"),
    [
        ({"epochs": 2}, "gradients", 24),
        ({"epochs": 2}, "epochs", 2),
        ({"epochs": 1.3}, "gradients", 16),  # 15.6
        ({"epochs": None, "steps": 9}, "gradients", 18),
        ({"epochs": None, "steps": 9}, "epochs", 1.5),
        ({"epochs": None, "gradients": 6}, "epochs", 0.5),
        ({"epochs": None, "gradients": 6}, "gradients", 6),
        ({"epochs": None, "seconds": 2.5}, "seconds", 2.5),
    ],
)
def test_a_length_becomes_the_budget_of_a_kind(problem, train, kind, amount):
    config = check_config({**CONTENT, "train": {**CONTENT["train"], **train}})
    budget = budget_of(config, problem, kind)
    assert (budget.kind, budget.amount) == (kind, pytest.approx(amount))
    assert EqualBudget.of(budget.given_to(config.train)) == budget


@pytest.mark.parametrize(
    ("train", "kind", "sentence"),
    [
        ({"epochs": 2}, "seconds", "`train.seconds` is not given"),
        ({"epochs": None, "seconds": 2}, "gradients", "choose the budget 'seconds'"),
        ({"epochs": 2}, "steps", "`budget` is 'steps': it must be one of"),
    ],
)
def test_a_budget_that_cannot_be_had_is_one_sentence(problem, train, kind, sentence):
    config = SimpleNamespace(train=check_config({**CONTENT, "train": train}).train)
    with pytest.raises(ValueError, match=sentence) as raised:
        budget_of(config, problem, kind)
    assert "\n" not in str(raised.value)
