"""`tasks.data_card`: what is counted, and how fast."""

from __future__ import annotations

import time

import pytest
from data_files import KIND_ROWS

from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Question, Text
from gradaccord.models.trunks.characters import CharacterTokens
from gradaccord.tasks.data_card import data_card
from gradaccord.tasks.prepare import prepare
from gradaccord.tasks.registry import KINDS, task_for

TOKENS = CharacterTokens("abc .")


def card_of(splits, kind="classification", labels=("x", "y", "z"), **options):
    dataset = Dataset("own", kind, splits, labels)
    return data_card(prepare("own", task_for(dataset, **options), dataset, TOKENS), TOKENS)


def test_what_is_counted():
    train = [Text("a", None, 0), Text("a", None, 0), Text("a", None, 1), Text(" ", None, 2), Text("b")]
    dev = [Text("b", None, 1), Text("a", None, 0), Text("c" * 30, None, 1), Text("c" * 9, None, 1)]
    card = card_of({"train": train, "dev": dev}, max_length=20)
    own = card.splits["train"]
    assert (own.examples, own.labelled, own.empty, own.repeated) == (4, 4, 1, 2)  # one has no label
    assert (own.contradictions, own.classes) == (1, {"x": 2, "y": 1, "z": 1})
    assert own.balance == "x 50.0 %, y 25.0 %, z 25.0 %"
    own = card.splits["dev"]
    assert own.also_in == {"train": 1}
    assert own.absent == ["z"]
    assert own.lengths == {50: 1, 95: 20, 99: 20, 100: 20}
    assert own.cut == 0.25
    assert card.example == "a"
    assert card.answer == "x"
    assert card.warnings == [
        "own train: 1 examples have an empty text.",
        "own train: 1 examples repeat another one with a different label.",
        "own dev: 25.0% of the texts are cut at 20 tokens: raise `max_length` if the model can.",
        "own dev: no example of the class z.",
        "own dev: 1 of 4 examples also occur in train.",
    ]


def test_two_questions_about_a_context_are_two_examples():
    asked = [Question("b?", "a b", ("a",), (0,)), Question("c?", "a b", ("a",), (0,))]
    card = card_of({"train": asked, "test": [*asked[:1], asked[0]]}, "question_answering", ())
    assert [own.repeated for own in card.splits.values()] == [0, 1]
    assert card.splits["test"].also_in == {"train": 1}


@pytest.mark.parametrize("kind", [k for k in KINDS if k in KIND_ROWS and k != "summarization"])
def test_every_kind_has_a_card(kind):
    example = KIND_ROWS[kind][2]
    labels = ("LOC",) if kind == "tagging" else ()
    card = card_of({"train": [example, example], "dev": [example]}, kind, labels)
    assert card.splits["train"].repeated == 1
    assert card.splits["dev"].also_in == {"train": 1}
    assert card.example


def test_a_card_takes_microseconds_an_example():
    train = [Text(f"a b c {i}", None, i % 3) for i in range(20_000)]
    dataset = Dataset("own", "classification", {"train": train}, ("x", "y", "z"))
    prepared = prepare("own", task_for(dataset), dataset, TOKENS)
    began = time.process_time()
    data_card(prepared, TOKENS)
    assert time.process_time() - began < 0.6
