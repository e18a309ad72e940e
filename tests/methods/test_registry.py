"""The one table of methods: options, costs, controls; and the contributor's guide to adding one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradaccord
from gradaccord.methods.registry import ADDITIONS, METHODS, controls_of, entry_of_class, find_method

ROOT = Path(__file__).parents[2]


def test_the_contributors_guide_adds_a_method_by_a_file_a_test_and_one_line(tmp_path):
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    method, test, line = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(line.splitlines()) == 1
    shutil.copytree(Path(gradaccord.__file__).parent, tmp_path / "src" / "gradaccord")
    home = tmp_path / "src" / "gradaccord" / "methods"
    (home / "combine" / "equal_norms.py").write_text(method)
    registry = (home / "registry.py").read_text()
    (home / "registry.py").write_text(registry.replace("_ENTRIES = (\n", f"_ENTRIES = (\n{line}"))
    (tmp_path / "test_equal_norms.py").write_text(test)
    paths = os.pathsep.join([str(tmp_path / "src"), str(ROOT / "tests" / "support")])
    environment = os.environ | {"PYTHONPATH": paths, "COLUMNS": "100"}

    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert "1 passed" in run("-m", "pytest", "test_equal_norms.py")
    listed = run("-m", "gradaccord", "list", "methods")
    assert "equal_norms" in listed
    assert "gives all task gradients one length (compare with sum;" in " ".join(listed.split())


@pytest.mark.parametrize("name", METHODS)
def test_every_method_names_its_options_and_refuses_others(name):
    entry = find_method(name)
    needed = {"weighting": "UPGrad"} if name == "torchjd" else {}
    with pytest.raises(ValueError, match="has no option 'wieght'"):
        entry.check({**needed, "wieght": 1})


@pytest.mark.parametrize("name", METHODS)
def test_every_class_is_public_and_finds_its_entry(name):
    entry = METHODS[name]
    cls = getattr(gradaccord, entry.class_name)
    assert cls is entry.load()
    assert issubclass(cls, gradaccord.Method)
    assert entry_of_class(cls).home == entry.home
    assert entry_of_class(type("Mine", (cls,), {})).home == entry.home
    assert entry_of_class(dict) is None


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'pcgrad'"):
        find_method("pcgrd")


@pytest.mark.parametrize(
    ("name", "options", "cost"),
    [
        ("pcgrad", {}, 1),
        ("dotprod", {}, 2.1),  # 4.2 per two batches
        ("dotprod", {"mode": "difference"}, 1.5),
        ("dotprod", {"mode": "difference", "every": 10}, 1.1),
        ("dotprod", {"mode": "difference", "scheme": "centred"}, 2),
        ("dotprod", {"mode": "difference", "scheme": "symmetric"}, 2.5),
        ("dotprod", {"scheme": "symmetric"}, 4.0),
        ("sam", {}, 2),
        ("sam", {"batches": 2}, 1),
    ],
)
def test_costs_are_those_of_the_method_sheet(name, options, cost):
    assert find_method(name).cost_with(options) == pytest.approx(cost)


def test_feed_and_turns_follow_the_options():
    sam = find_method("sam")
    assert (sam.feed_with({}), sam.feed_with({"batches": 2})) == ("one", "pair")
    for name in ("paired_sum", "dotprod"):
        pairs = find_method(name)
        fed = [pairs.feed_with(options) for options in ({}, {"every": 3}, {"every": 10})]
        assert fed == ["pair", "one", "one"]
    reptile = find_method("multitask_reptile")
    assert (reptile.block_with({}), reptile.block_with({"inner_steps": 7})) == (1000, 7)
    assert find_method("reptile").block_with({}) == 1
    copies = {"pcgrad": 4, "famo": 4, "dotprod": 2, "multitask_reptile": 2, "sam": 1, "averaged": 5}
    copies |= {"sequential": 0, "sequential_averaged": 1}
    assert {name: find_method(name).copies_with(5, {}) for name in copies} == copies


def test_a_longer_step_is_a_control_of_the_dot_product():
    """Its term lengthens the step by up to a tenth, which alone may be what helps."""
    controls = controls_of("dotprod", {})
    assert [(control.method, control.rate) for control in controls] == [
        ("paired_sum", 1.0),
        ("paired_sum", 1.1),
    ]


def test_no_method_is_its_own_control():
    assert controls_of("reptile", {"outer_lr": 1.0}) == ()
    for name in METHODS:
        for control in controls_of(name, {}):
            assert (control.method, dict(control.options)) != (name, {})
            find_method(control.method).check(control.options)


@pytest.mark.parametrize(
    ("name", "options", "cost"),
    [
        ("smart", {}, 2.7),
        ("smart", {"ascent_steps": 2}, 3.4),
        ("smart", {"bregman": 1.0}, 3.0),
        ("smart", {"weight": {"a": 0.0}}, 1.0),
        ("swep", {}, 2.1),
        ("recadam", {"gamma": 10.0}, 1.0),
    ],
)
def test_what_is_added_costs_by_its_options(name, options, cost):
    assert ADDITIONS[name].check(options) == options
    assert ADDITIONS[name].cost_with(options) == pytest.approx(cost)
