"""Examples on disk: as in memory, whatever is done with them; read anew when a file changes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Choices, Question, Tagged, Text, WordPair
from gradaccord.data.files.layouts import Keep
from gradaccord.data.files.tensor_cache import fingerprint
from gradaccord.data.leakage import overlaps
from gradaccord.data.splits import cut
from gradaccord.data.stored import Stored, stored

SHAPES: dict[str, list[Any]] = {
    "classification": [
        Text("a", None, 0, "1"),
        Text("ß\ud83d", "b\n", None, "2"),
        Text("c", "", 1, "3"),
    ],
    "regression": [Text("a", "b", 1.0, "1"), Text("a", "b", 1e-300, "2"), Text("c", "d", 3, "3")],
    "question_answering": [Question("Who?", "He.", ("He", "e"), (0, 1), "en", "q")],
    "tagging": [Tagged(("New", "York"), ("B-LOC", "I-LOC"), "t"), Tagged(("x",))],
    "multiple_choice": [Choices("p", "cause", ("a", "b"), 1, "c")],
    "word_in_context": [WordPair("a b", "b c", (2, 3), (0, 1), 1, "w")],
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADACCORD_CACHE", str(tmp_path / "cache"))


def kept(tmp_path: Path, dataset: Dataset) -> Dataset:
    return stored(lambda keep: dataset, repr(dataset), "set")


def many(count: int) -> list[Text]:
    return [Text(f"text {i % 700}", None, i % 3, str(i)) for i in range(count)]


@pytest.mark.parametrize("kind", SHAPES)
def test_every_field_comes_back_with_its_type(tmp_path: Path, kind: str) -> None:
    dataset = Dataset(
        "set", kind, {"train": SHAPES[kind], "dev": SHAPES[kind][:1]}, ("x", "y"), "sw", {"pair": None}
    )
    found = kept(tmp_path, dataset)
    assert replace(found, splits={}) == replace(dataset, splits={})
    assert {s: list(e) for s, e in found.splits.items()} == {
        "train": SHAPES[kind],
        "dev": SHAPES[kind][:1],
    }
    for one, other in zip(found.splits["train"], SHAPES[kind], strict=True):
        assert repr(one) == repr(other)  # 1 is no 1.0


def test_a_part_of_a_part_is_what_a_list_would_give(tmp_path: Path) -> None:
    examples = many(10_000)
    found = kept(tmp_path, Dataset("set", "classification", {"train": examples})).splits["train"]
    assert isinstance(found, Stored)
    places = torch.tensor([5, 3, 9_000, 44])
    assert (len(found), found[-1], found[7]) == (10_000, examples[-1], examples[7])
    assert list(found[4_000:9_500][10::7]) == examples[4_000:9_500][10::7]
    assert list(found[100:].part(places, "four")) == [examples[100 + p] for p in places.tolist()]
    chosen = found.part(places, "four")
    assert list(chosen[::-1]) == [examples[p] for p in places.tolist()][::-1]
    assert list(chosen.part(torch.tensor([1]), "one")) == [examples[3]]
    with pytest.raises(IndexError, match="no example 4 among 4"):
        chosen[4]
    names = [found, found[100:], found[:100], chosen, chosen[1:], found.part(places, "other")]
    assert len({part.identity for part in names}) == len(names)


def test_files_are_read_again_when_they_change_or_an_option_does(tmp_path: Path) -> None:
    file, readings = tmp_path / "file.txt", []

    def read(keep: Keep) -> Dataset:
        readings.append(file.read_text())
        return Dataset("set", "classification", {"train": [Text(file.read_text(), None, 0, "1")]})

    def text(options: object = None) -> tuple[str, str]:
        split: Any = stored(read, f"{fingerprint(file)} {options}", "file").splits["train"]
        return split[0].first, split.identity

    file.write_text("one")
    first = text()
    assert text() == first
    assert len(readings) == 1
    assert text("header") == first  # another option, the same examples
    assert len(readings) == 2
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    assert text()[0] == "two"
    assert text()[1] != first[1]


@pytest.mark.parametrize("shares", [0.2, {"train": 0.5, "dev": 0.1, "test": 0.3}])
def test_a_cut_is_the_same_on_disk_and_kept_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares: Any
) -> None:
    examples = many(3_000)
    plain = Dataset("set", "classification", {"train": examples})
    on_disk = kept(tmp_path, plain)
    expected = {name: list(part) for name, part in cut(plain, shares).splits.items()}
    assert {name: list(part) for name, part in cut(on_disk, shares).splits.items()} == expected
    monkeypatch.setattr("gradaccord.data.splits._rows", None)  # a call would raise
    assert {name: list(part) for name, part in cut(on_disk, shares).splits.items()} == expected


def test_overlaps_are_the_same_on_disk_and_kept_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = {
        "train": many(500),
        "dev": [*many(20), Text("TEXT 400!", None, 0, "x"), Text("new", id="y")],
    }

    def found(splits: Any) -> list[Any]:
        both: Sequence[Any] = [("dev", splits["dev"]), ("all", splits["train"])]
        return list(overlaps([("train", splits["train"])], both))

    on_disk = kept(tmp_path, Dataset("set", "classification", splits)).splits
    expected = found(splits)
    assert (expected[0].exact, expected[0].normalised, expected[0].total) == (20, 21, 22)
    assert found(on_disk) == expected
    monkeypatch.setattr("gradaccord.data.leakage._compare", None)  # a call would raise
    assert found(on_disk) == expected


def test_what_is_kept_is_plain_json(tmp_path: Path) -> None:
    found: Any = kept(tmp_path, Dataset("set", "tagging", {"train": SHAPES["tagging"]})).splits["train"]
    first = bytes(found._content[: int(found._starts[1])].tolist())
    assert json.loads(first) == [["New", "York"], ["B-LOC", "I-LOC"], "t"]
