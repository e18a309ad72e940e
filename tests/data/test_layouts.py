"""`files.layouts`: which files belong to a set, and ids that occur twice."""

from __future__ import annotations

from pathlib import Path

from gradaccord.data.examples import Line
from gradaccord.data.files.layouts import Layout, PublishedSet, with_own_ids
from gradaccord.data.files.text_files import File


def test_the_first_layout_that_has_a_split_gives_it() -> None:
    first = Layout(r"(?P<split>train|val)\.(?P<language>[a-z]{2})\.txt", lambda file, wanted: [])
    second = Layout(
        r"(?P<split>train|test)_all\.txt", lambda file, wanted: [], inside_languages=("sw",)
    )
    known = PublishedSet("mine", "masked_lm", (first, second), languages=True)
    paths = ("a/train.sw.txt", "a/VAL.sw.txt", "b/train_all.txt", "b/test_all.txt", "other.txt")
    sources = known.sources({path: File(Path(path)) for path in paths})
    assert list(sources) == ["sw"]
    found = {split: str(source.files[0]) for split, source in sources["sw"].items()}
    assert found == {"train": "a/train.sw.txt", "dev": "a/VAL.sw.txt", "test": "b/test_all.txt"}


def test_no_id_occurs_twice() -> None:
    examples = [Line("a", "1"), Line("b", "1"), Line("c", "2"), Line("d", "1")]
    assert [example.id for example in with_own_ids(examples)] == ["1", "1#2", "2", "1#3"]
