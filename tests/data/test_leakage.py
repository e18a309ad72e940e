"""What training and evaluation share is found: letter by letter, spelled otherwise, or translated."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gradaccord import data
from gradaccord.data.examples import Question, Tagged, Text
from gradaccord.data.leakage import Overlap, normalised, overlaps

SHARED = (Path(__file__).resolve().parents[2] / ".." / "shared" / "data").resolve()


def compared(train: list[Any], evaluation: list[Any]) -> Overlap | None:
    return next(overlaps([("here", train)], [("there", evaluation)]), None)


def load(name: str, **options: Any) -> data.Dataset:
    if not SHARED.exists():
        pytest.skip("the shared data is not here")
    return data.load(name, folder=SHARED, **options)


def squad() -> list[Any]:
    found = load("squad")
    return [example for split in found.splits.values() for example in split]


def test_exact_and_normalised_copies_are_counted_in_distinct_texts() -> None:
    train = [Text("The cat sat."), Text("Ｔｈｅ  dog, ran!"), Text("caf\u00e9 au lait"), Text("A bird")]
    judged = [
        Text("The cat sat."),  # the same
        Text("the DOG ran"),  # width, case, space, punctuation
        Text("cafe\u0301 au lait"),  # composed otherwise
        Text("The cat sat."),  # a text counts once
        Text("A bird flew."),
        Text("..."),  # nothing is left of it, which is no match
    ]
    found = compared([*train, Text("!!!")], judged)
    assert (found.exact, found.normalised, found.total) == (1, 3, 5)
    assert found.samples == ("The cat sat.", "the DOG ran", "cafe\u0301 au lait")
    assert found.share == pytest.approx(0.6)
    assert 'such as "The cat sat."' in str(found)
    assert not compared(train, [Text("something else")])


def test_vowel_signs_tell_words_apart() -> None:
    assert normalised("कि।") == "कि" != normalised("का")
    assert normalised("ที่") != normalised("ทา")


def test_pairs_count_as_pairs_and_questions_by_their_context() -> None:
    assert not compared([Text("a", "b")], [Text("a", "c")])
    assert compared([Question("Who?", "Some context.")], [Question("When?", "Some context.")])
    assert compared([Text("New York is big")], [Tagged(("New", "York", "is", "big"))])


def test_long_ids_in_common_betray_translations_and_row_numbers_do_not() -> None:
    long = "56be4db0acb8001400a502ec"
    english, german = (
        Question("Who?", "In English.", id=long),
        Question("Wer?", "Auf Deutsch.", id=long),
    )
    found = compared([english], [german])
    assert found
    assert (found.normalised, found.same_ids, found.examples) == (0, 1, 1)
    assert "1 of its 1 examples have the id of one there" in str(found)
    assert not compared([Text("a", id="12")], [Text("b", id="12")])


def test_all_pairs_of_sets_and_only_those_that_share_something() -> None:
    one, two, three = [Text("x y")], [Text("X, y")], [Text("z")]
    found = list(overlaps([("one", one), ("three", three)], [("two", two), ("three", three)]))
    assert [(o.train, o.evaluation) for o in found] == [("one", "two"), ("three", "three")]


def test_xquad_is_squad_in_english_and_in_every_other_language() -> None:
    train = squad()
    english = load("xquad", language="en").split("test")
    found = compared(train, list(english))
    assert (found.exact, found.total) == (240, 240)
    for language in ("ar", "de", "th", "zh"):
        judged = list(load("xquad", language=language).split("test"))
        other = compared(train, judged)
        assert (other.normalised, other.same_ids, other.examples) == (0, 1190, 1190)
        assert other


def test_squad_2_has_the_articles_of_squad_1_whose_halves_share_none() -> None:
    found = compared(squad(), list(load("squad2").split("dev")))
    assert found.share == 1
    halves = load("squad")
    assert not compared(list(halves.split("train")), list(halves.split("dev")))


@pytest.mark.parametrize(("language", "shared"), [("en", None), ("ko", (9, 228)), ("sw", (63, 357))])
def test_tydiqa_repeats_some_contexts_in_dev(language: str, shared: tuple[int, int] | None) -> None:
    found = load("tydiqa", language=language)
    said = compared(list(found.split("train")), list(found.split("dev")))
    assert shared == (None if said is None else (said.normalised, said.total))


def test_a_hundred_thousand_pairs_take_seconds() -> None:
    rows = [Text(f"Premise number {i} is here, somewhere.", f"Hypothesis {i}!") for i in range(100_000)]
    normalised("")  # the table is made once
    start = time.process_time()
    assert compared(rows, rows[:50_000]).exact == 50_000
    assert time.process_time() - start < 5
