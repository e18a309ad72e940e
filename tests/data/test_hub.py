"""`files.hub`: sets of Hugging Face, from folders on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_files import write

from gradaccord import data
from gradaccord.data.examples import (
    Text,
)
from gradaccord.data.files import hub
from gradaccord.data.stored import Stored


@pytest.fixture
def offline(monkeypatch, tmp_path):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_folder_of_files_as_hugging_face_reads_it(tmp_path, offline, ending):
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [{"premise": f"p{n}", "hypothesis": f"h{n}", "label": n % 2, "idx": n} for n in range(5)]
    write(folder / f"train.{ending}", rows)
    write(folder / f"validation.{ending}", rows[:2])
    dataset = hub.load(folder, cache=offline)
    assert dataset.kind == "classification"
    assert dataset.counts == {"train": 5, "dev": 2}
    assert dataset.split("train")[1] == Text("p1", "h1", 1, "1")
    assert dataset.options == {"pair": "cross"}
    named = hub.load(folder, cache=offline, labels=["yes", "no"], splits=["dev"])
    assert (named.labels, [*named.splits]) == (("yes", "no"), ["dev"])


def test_what_save_to_disk_wrote_with_class_names_and_tags(tmp_path, offline):
    import datasets

    label = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    part = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, -1]}, features=label)
    datasets.DatasetDict({"train": part.select([0]), "test": part}).save_to_disk(tmp_path / "texts")
    texts = data.load(f"hub:{tmp_path / 'texts'}")
    assert texts.labels == ("no", "yes")
    assert [e.label for e in texts.split("test")] == [1, None]

    names = datasets.ClassLabel(names=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    tags = datasets.Features(
        {"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": datasets.Sequence(names)}
    )
    part = datasets.Dataset.from_dict(
        {"tokens": [["Ann", "in", "Ulm"]], "ner_tags": [[1, 0, 3]]}, features=tags
    )
    part.save_to_disk(tmp_path / "tags")
    tagged = data.load(f"hub:{tmp_path / 'tags'}")
    assert (tagged.kind, tagged.labels) == ("tagging", ("PER", "LOC"))
    assert tagged.split("train")[0].tags == ("B-PER", "O", "B-LOC")

    answers = {"text": ["Ann"], "answer_start": [3]}
    part = datasets.Dataset.from_list(
        [{"id": "i", "question": "q", "context": "an Ann", "answers": answers}]
    )
    datasets.DatasetDict({"validation": part}).save_to_disk(tmp_path / "questions")
    assert data.load(f"hub:{tmp_path / 'questions'}").split("dev")[0].starts == (3,)


def test_a_set_that_cannot_be_had_is_one_sentence(tmp_path, offline):
    with pytest.raises(
        ValueError, match=r"`datasets` could not load 'nobody/nothing-at-all' .+\.$"
    ) as caught:
        hub.load("nobody/nothing-at-all", cache=offline)
    assert "\n" not in str(caught.value)
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder / "train.jsonl", [{"x": 1}])
    with pytest.raises(ValueError, match="give `kind`"):
        hub.load(folder, cache=offline)


def test_class_numbers_of_hugging_face_are_places_even_where_names_are_numbers(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["1", "2", "3"])}
    )
    rows = [{"text": "a", "label": 0}, {"text": "b", "label": 2}, {"text": "c", "label": -1}]
    part = datasets.Dataset.from_list(rows, features=features)
    datasets.DatasetDict({"validation": part}).save_to_disk(str(tmp_path / "stars"))
    read = data.load(f"hub:{tmp_path / 'stars'}")
    assert read.labels == ("1", "2", "3")
    assert [example.label for example in read.split("dev")] == [0, 2, None]


def test_an_empty_cell_that_hugging_face_reads_as_null_is_no_word(tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "set").mkdir()
    (tmp_path / "set/train.csv").write_text("text,label\nfine,0\n,1\n")
    with pytest.raises(ValueError, match=r"set, line 2: 'text' is missing"):
        hub.load(tmp_path / "set", cache=tmp_path / "cache")


def test_a_large_set_is_read_once_and_the_same_on_disk(tmp_path, offline, monkeypatch):
    import datasets

    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "ours"))
    monkeypatch.setattr(hub, "MANY", 1)
    rows = [{"text": f"text {n}", "label": n % 3 - 1, "id": str(n // 2)} for n in range(6)]
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["no", "yes"]),
            "id": datasets.Value("string"),
        }
    )
    part = datasets.Dataset.from_list(rows, features=features)
    datasets.DatasetDict({"test": part}).save_to_disk(tmp_path / "set")
    plain = hub.load(tmp_path / "set", cache=offline)
    kept = hub.load(tmp_path / "set", cache=offline, on_disk=True)
    assert isinstance(kept.split("test"), Stored)
    assert list(kept.split("test")) == plain.split("test")
    assert [example.id for example in plain.split("test")[:4]] == ["0", "0#2", "1", "1#2"]
    monkeypatch.setattr(hub, "dataset_of", None)  # a call would raise
    assert len(hub.load(tmp_path / "set", cache=offline, on_disk=True).split("test")) == 6
