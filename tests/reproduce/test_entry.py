"""Entries: the files that come with the library, and mistakes in one."""

import pytest
import yaml
from reproduce_toy import ENTRIES, TRIO

from gradaccord.reproduce.entry import (
    COMPARE,
    DATA,
    FOLDER,
    PAPERS,
    all_entries,
    find_entry,
    read_entry,
)
from gradaccord.reproduce.plan import plan
from gradaccord.reproduce.special.pool import find_experiment
from gradaccord.train.config_file import check_config

PRIMARY = {"arm": "pcgrad", "against": "plain", "smallest_effect": 1}
FILES = sorted([*FOLDER.glob("*.yaml"), *ENTRIES.glob("*.yaml")])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_entry_is_valid_and_so_is_every_configuration_in_it(file):
    entry = read_entry(file.stem, file.read_text(encoding="utf-8"))
    assert entry.paper in PAPERS
    assert entry.claim.endswith(".")
    if entry.kind not in (COMPARE, DATA):
        find_experiment(entry.kind)
    for size in ("small", "full"):
        setting = getattr(entry, size)
        if setting is None or entry.kind != COMPARE:
            continue
        for planned in plan(entry, size, seeds=1):
            check_config(planned.settings, source=f"{entry.name}, {size}, {planned.label}")


def test_entries_are_ordered_by_paper_and_number(tmp_path):
    text = (ENTRIES / f"{TRIO}.yaml").read_text()
    names = ["dotprod-table-4", "dotprod-table-10", "controls-a", "minbert-figures-1-3"]
    for name in names:
        (tmp_path / f"{name}.yaml").write_text(text)
    assert list(all_entries(tmp_path)) == [names[2], names[3], names[0], names[1]]
    with pytest.raises(ValueError, match="There is no entry 'dotprod-table4': did you mean"):
        find_entry("dotprod-table4", all_entries(tmp_path))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"claims": "x"}, "`claims`: Extra inputs"),
        ({"small": None}, "`small` is missing"),
        ({"published": {"source": "T", "columns": ["a"], "rows": {"x": [1, 2]}}}, "2 numbers for 1"),
    ],
)
def test_a_mistake_is_one_sentence(change, sentence):
    content = yaml.safe_load((ENTRIES / f"{TRIO}.yaml").read_text()) | change
    with pytest.raises(ValueError, match=sentence):
        read_entry(TRIO, yaml.safe_dump(content))


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("baseline", "plan", "`baseline` is 'plan': did you mean 'plain'"),
        ("controls", {"pcgrad": "nothing"}, "is 'nothing': the arms are"),
        ("budgets", {"epochs": None, "gradients": ["sam"]}, r"`budgets.gradients\[0\]` is 'sam'"),
        ("primary", {**PRIMARY, "variant": "x"}, "`primary.variant` is 'x'"),
        ("primary", {**PRIMARY, "budget": "seconds"}, "`primary.budget` is 'seconds'"),
        ("variants", {"a/b": {}}, "'a/b' names an arm or a variant"),
    ],
)  # fmt: skip
def test_names_inside_a_setting_exist(key, value, sentence):
    content = yaml.safe_load((ENTRIES / f"{TRIO}.yaml").read_text())
    content["small"][key] = value
    with pytest.raises(ValueError, match=sentence):
        read_entry(TRIO, yaml.safe_dump(content))


def test_a_name_without_a_paper_is_refused():
    with pytest.raises(ValueError, match="begins with no paper"):
        read_entry("table-4", (ENTRIES / f"{TRIO}.yaml").read_text())
