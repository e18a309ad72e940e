"""A node that does not see the folder: what it writes comes back, and a second node goes on."""

from pathlib import Path
from threading import Event, Thread

import pytest
from train_toy import same, weights

from gradaccord.compare import on_node
from gradaccord.compare.on_node import Changes, Copier, Order, all_files, train_on_node
from gradaccord.compare.processes import Run, write_wanted
from gradaccord.compare.specs import Spec
from gradaccord.runs.results import Results
from gradaccord.train.run import train_run


def test_changes_bring_a_copy_up_to_date(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "checkpoints" / "step-1").mkdir(parents=True)
    (here / "checkpoints" / "step-1" / "state").write_bytes(b"one")
    (here / "log.jsonl").write_text("1\n")
    (here / ".lock").touch()
    (here / "checkpoints" / "step-2.tmp").mkdir()
    (here / "checkpoints" / "step-2.tmp" / "state").write_bytes(b"half")
    there.mkdir()
    copier = Copier(here)
    copier.changes().apply(there)
    assert {path.name for path in there.rglob("*")} == {"checkpoints", "step-1", "state", "log.jsonl"}
    assert copier.changes() is None
    (here / "checkpoints" / "step-1" / "state").unlink()
    (here / "checkpoints" / "step-1").rmdir()
    (here / "log.jsonl").write_text("1\n2\n")
    changes = copier.changes()
    assert changes == Changes({"log.jsonl": b"1\n2\n"}, frozenset({"log.jsonl"}))
    changes.apply(there)
    assert [path.name for path in there.rglob("*")] == ["log.jsonl"]


def test_folders_that_come_and_go_while_it_looks_are_passed_over(tmp_path):
    """As those of checkpoints do, which are written under another name and then renamed."""
    kept, passing = tmp_path / "log.jsonl", tmp_path / "checkpoints"
    kept.write_text("1\n")
    passing.mkdir()
    done = Event()

    def come_and_go():
        while not done.is_set():
            (passing / "step-1.tmp").mkdir()
            (passing / "step-1.tmp").rename(passing / "step-1")
            (passing / "step-1").rmdir()

    other = Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(3000):
            assert set(on_node._files(tmp_path)) == {"log.jsonl"}
    finally:
        done.set()
        other.join()


def test_a_run_comes_back_from_a_node_and_goes_on_on_another(configured, tmp_path, monkeypatch):
    """And ends as the same run without any node does."""
    monkeypatch.setattr(on_node, "EVERY", 0.02)  # it must not end between two reports
    monkeypatch.setattr(on_node, "SHARE", 1.0)
    config = configured(train={"steps": 200, "save_every": 4, "evaluate_every": 200, "seed": 3})
    run = Run(Spec("sum"), 3, tmp_path / "home", config)
    write_wanted(run)
    order = Order(run.folder, (tmp_path / "mark", "never written"), None, 1)
    places = []

    def report(stops):
        def told(changes):
            if changes is not None:
                changes.apply(run.folder)
            places.append(bool(list(run.folder.glob("checkpoints/step-*"))))
            return stops if places[-1] else 0

        return told

    assert train_on_node(order, lambda: all_files(run.folder), report(1)) == 130
    assert 0 < run.share < 1
    assert not Results.exists(run.folder)
    assert train_on_node(order, lambda: all_files(run.folder), report(0)) == 0
    assert "Continued at step" in (run.folder / "output.txt").read_text()
    assert Results.read(run.folder).cost.steps == 200
    train_run(config, tmp_path / "whole")
    assert same(weights(run.folder), weights(tmp_path / "whole"))


def test_a_node_with_another_version_refuses_in_one_sentence(tmp_path):
    order = Order(tmp_path, (tmp_path / "mark", ""), None, 1, version="0.0.1")
    with pytest.raises(ValueError, match=r"on this node and 0\.0\.1 where the command runs: install"):
        train_on_node(order, lambda: all_files(Path()), lambda changes: 0)
