"""The plane as an experiment: one record of all methods, from the starts that are asked for."""

from __future__ import annotations

import pytest
from special_entries import TEXT

from gradaccord.reproduce.entry import read_entry
from gradaccord.reproduce.plan import missing, plan
from gradaccord.reproduce.records import read_records
from gradaccord.reproduce.run import Folders, run_entry
from gradaccord.reproduce.special.pool import find_experiment


def test_the_landscape_is_one_record_of_all_methods(tmp_path):
    config = "{seeds: 2, steps: 5, outer_steps: 2, inner_steps: 3, rates: [0.1]}"
    entry = read_entry("sequential-reptile-zz", TEXT.format(kind="landscape", config=config))
    folders = Folders(None, tmp_path / "runs", tmp_path / "results")
    said = []
    assert run_entry(entry, plan(entry), folders, say=said.append) == {}
    assert missing(plan(entry), folders.results) == []
    (record,) = read_records(folders.results, entry.name)
    assert {"MTL", "PCGrad", "Sequential Reptile", "PCGrad @ 0.1"} <= set(record.test)
    assert set(record.test["MTL"]) == {"trapped", "loss", "cosine", "end_cosine"}
    assert record.cost.cpu_seconds > 0


def test_the_landscape_from_one_start(tmp_path):
    few = {"seeds": 2, "steps": 5, "outer_steps": 2, "inner_steps": 3, "rates": [0.1]}
    run = find_experiment("landscape")
    every, *each = (
        run({**few, **starts}, 0, data=None, folder=tmp_path).test["MTL"]["loss"]
        for starts in ({}, *({"starts": [start]} for start in ([20, 5], [5, 20], [15, 15])))
    )
    assert each[0] == pytest.approx(each[1])  # mirror images
    assert each[0] != pytest.approx(each[2])
    assert every == pytest.approx(sum(each) / 3)
    with pytest.raises(ValueError, match=r"`starts` holds \(1.0, 1.0\): use some of \(20.0, 5.0\)"):
        run({"starts": [[1, 1]]}, 0, data=None, folder=tmp_path)
