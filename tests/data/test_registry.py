"""`data.registry`: names, folders, languages and splits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from data_files import put, refused, tsv

from gradaccord import data
from gradaccord.data.stored import Stored

HEADER = "sentence\tlabel\n"


def test_names_folders_languages_and_splits_that_do_not_exist(tmp_path):
    put(tmp_path, "xnli/dev-de.tsv", "a\tb\tneutral\n")
    put(tmp_path, "xnli/dev-sw.tsv", "a\tb\tneutral\n")
    put(tmp_path, "SST-2/train.tsv", HEADER + "fine\t1\n")
    assert refused("squad3", tmp_path).startswith("There is no data set 'squad3': did you mean 'squad")
    assert "did you mean 'masakhaner2'?" in refused("masakaner/swa", tmp_path)
    assert "see `gradaccord list data`" in refused("zzzzzzzz", tmp_path)
    assert "holds no file of the set 'cola'" in refused("cola", tmp_path)
    assert "choose one of de, sw, as in 'xnli/de'" in refused("xnli", tmp_path)
    assert "no language 'fr' here" in refused("xnli/fr", tmp_path)
    assert "leave 'fr' out" in refused("sst2/fr", tmp_path)
    assert "give one" in refused("xnli/de", tmp_path, language="sw")
    assert "`xnli/de` has no split 'train': it has dev." in refused(
        "xnli/de", tmp_path, splits=["train"]
    )
    assert "few-shot set" in refused("omniglot", tmp_path)
    with pytest.raises(FileNotFoundError, match="No such folder"):
        data.find(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="No such folder"):
        data.load("sst2", tmp_path / "nowhere")


def test_the_folder_may_come_from_the_environment_and_be_the_sets_own(tmp_path, monkeypatch):
    put(tmp_path, "glue/CoLA/train.tsv", tsv(("gj04", 1, "", "It is.")))
    monkeypatch.setenv("GRADACCORD_DATA", str(tmp_path))
    assert data.load("cola").counts == {"train": 1}
    assert "cola" in [found.name for found in data.find()]
    monkeypatch.delenv("GRADACCORD_DATA")
    with pytest.raises(ValueError, match="GRADACCORD_DATA"):
        data.load("cola")


def test_cldr_needs_no_folder(monkeypatch):
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    german = data.load("cldr/de")
    assert german.kind == "classification"
    assert {e.label for e in german.split("train")} == set(range(len(german.labels)))
    unseen = data.load("cldr", language="fr", splits=["test"])
    assert [*unseen.splits] == ["test"]
    listed = {found.name: found for found in data.find()}
    assert dict(listed["cldr/de"].counts) == german.counts


def test_a_large_set_is_read_once_and_the_same_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("gradaccord.data.registry.LARGE", 100)
    put(tmp_path, "SST-2/train.tsv", HEADER + "fine\t1\nbad\t0\n" * 50)
    put(tmp_path, "SST-2/dev.tsv", HEADER + "so so\t1\n")
    plain = data.load("sst2", tmp_path)
    assert isinstance(plain.split("train"), list)
    kept = data.load("sst2", tmp_path, on_disk=True)
    assert isinstance(kept.split("train"), Stored)
    assert {s: list(e) for s, e in kept.splits.items()} == plain.splits
    assert replace(kept, splits={}) == replace(plain, splits={})
    with monkeypatch.context() as patched:
        patched.setattr("gradaccord.data.files.layouts.Source.read", None)  # a call would raise
        assert list(data.load("sst2", tmp_path, on_disk=True).split("train")) == plain.split("train")
    put(tmp_path, "SST-2/dev.tsv", HEADER + "another\t1\n")
    assert data.load("sst2", tmp_path, on_disk=True).split("dev")[0].first == "another"
    monkeypatch.setattr("gradaccord.data.registry.LARGE", 10**6)
    assert isinstance(data.load("sst2", tmp_path, on_disk=True).split("train"), list)
