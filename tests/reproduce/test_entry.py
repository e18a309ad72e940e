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
from gradaccord.reproduce.plan import missing_files, plan
from gradaccord.reproduce.special.pool import find_experiment
from gradaccord.train.config_file import check_config

# Every table and figure, by paper.
PUBLISHED = {
    "dotprod": {"table": [3, 4, 5, 6, 7, 8, 9, 10, 11, 12], "figure": [2, 3, 4]},
    "sequential-reptile": {
        "table": [1, 2, 3, 4, 5, 9, 10],
        "figure": [3, 4, 5, 6, 7, 8, 9, 10, 11],
    },
    "minbert": {"table": [1, 2, 3], "figure": [1, 2, 3]},
    "gradient-sharing": {"table": [1], "figure": [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]},
}
OWN = {
    "controls": ["label-noise", "pretraining", "sts-encoding", "valley"],
    "explore": ["spurious-cues"],
}
PRIMARY = {"arm": "pcgrad", "against": "plain", "smallest_effect": 1}
FILES = sorted([*FOLDER.glob("*.yaml"), *ENTRIES.glob("*.yaml")])


@pytest.fixture(scope="module")
def entries():
    return {**all_entries(), **all_entries(ENTRIES)}


def test_every_table_and_figure_has_one_entry(entries):
    found = {paper: {"table": [], "figure": []} for paper in PUBLISHED}
    own = {paper: [] for paper in OWN}
    for entry in all_entries().values():
        rest = entry.name.removeprefix(f"{entry.paper}-")
        if entry.paper in own:
            own[entry.paper].append(rest)
            continue
        kind, first, *last = rest.split("-")
        numbers = range(int(first), int(last[0] if last else first) + 1)
        found[entry.paper][kind.removesuffix("s")] += numbers
    for kinds in found.values():
        for numbers in kinds.values():
            numbers.sort()
    assert found == PUBLISHED
    assert own == OWN


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_entry_is_valid_and_so_is_every_configuration_in_it(file, entries):
    entry = entries[file.stem]
    assert entry.paper in PAPERS
    assert entry.claim.endswith(".")
    if entry.kind not in (COMPARE, DATA):
        find_experiment(entry.kind)
    for size in ("small", "full"):
        design = getattr(entry, size)
        if design is None:
            continue
        assert size == "small" or design.unstated, "the values that are ours are not named"
        for need in design.needs if file.parent == FOLDER else ():
            assert f"{need} (" in missing_files([need], design.publisher, None), "no publisher"
        if entry.kind != COMPARE:
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
    with pytest.raises(ValueError, match="must begin with a paper"):
        read_entry("table-4", (ENTRIES / f"{TRIO}.yaml").read_text())


def reusing(folder, **records_of):
    """The toy entry, and another made of its runs."""
    (folder / f"{TRIO}.yaml").write_text((ENTRIES / f"{TRIO}.yaml").read_text())
    other = {"title": "A figure", "claim": "It shows it.", "published": {"source": "Figure 1"}}
    content = {**other, "records_of": {"entry": TRIO, **records_of}}
    (folder / "minbert-figure-1.yaml").write_text(yaml.safe_dump(content))
    return all_entries(folder)["minbert-figure-1"]


def test_an_entry_can_be_made_of_another_entrys_runs(tmp_path, trio):
    figure = reusing(tmp_path, arms=["pcgrad", "plain"], variants=["two"])
    assert (figure.runs, trio.runs) == (TRIO, TRIO)
    assert figure.small.controls == {"pcgrad": "plain"}
    assert figure.small.baseline == "plain"
    assert figure.small.needs == trio.small.needs
    planned = plan(figure)
    assert {(one.variant, one.arm) for one in planned} == {("two", "plain"), ("two", "pcgrad")}
    assert {one.arm for one in planned if one.budget == "gradients"} == {"plain"}
    assert all(one in plan(trio) for one in planned)  # the same settings, recorded in one place


@pytest.mark.parametrize(
    ("records_of", "sentence"),
    [
        ({"arms": ["pcgrads"]}, "there is no arm 'pcgrads': did you mean 'pcgrad'"),
        ({"variants": ["three"]}, "there is no variant 'three'"),
        ({"entry": "controls-zz"}, "There is no entry 'controls-zz'"),
        ({"entry": "minbert-figure-1"}, "has no runs of its own"),
    ],
)
def test_another_entrys_runs_must_exist(records_of, sentence, tmp_path):
    with pytest.raises(ValueError, match=f"minbert-figure-1.yaml: `records_of`: .*{sentence}"):
        reusing(tmp_path, **records_of)


def test_an_entry_of_anothers_runs_has_no_settings_of_its_own():
    content = yaml.safe_load((ENTRIES / f"{TRIO}.yaml").read_text()) | {"records_of": {"entry": TRIO}}
    with pytest.raises(ValueError, match="`records_of` brings the settings"):
        read_entry(TRIO, yaml.safe_dump(content))
