"""Metrics of the kinds against numbers worked out by hand; labels, spans and texts as they are read."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from kinds_support import CASES, minilm, records, tokens, wic, wsc

from gradaccord.data.examples import Candidate, Choices, Cloze, Coreference, Text, WordPair
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.tasks import (
    EntityCloze,
    MultiAnswer,
    MultipleChoice,
    PronounResolution,
    Regression,
    WordInContext,
    predict,
)
from gradaccord.tasks.kinds.multiple_choice import QUESTIONS
from gradaccord.tasks.kinds.span_pair import span_mean


def test_multirc_scores_by_hand() -> None:
    # Question a: 1 1 0 predicted 1 0 0 (one missed); b: 0 1 predicted 0 1 (exact); c: 0 predicted 1.
    gold = {"a": (1, 1, 0), "b": (0, 1), "c": (0,)}
    examples = [Candidate("p", q, str(i), y, q) for q, ys in gold.items() for i, y in enumerate(ys)]
    scores = MultiAnswer().score(examples, [True, False, False, False, True, True])
    # 3 predicted right, of which 2 are; 3 are right: precision 2/3, recall 2/3.
    assert scores == {"f1a": pytest.approx(200 / 3), "em": pytest.approx(100 / 3)}


def test_multirc_questions_without_a_group_are_told_apart_by_their_words() -> None:
    examples = [Candidate("p", "q1", "x", 1), Candidate("p", "q2", "x", 0)]
    assert MultiAnswer().score(examples, [1, 1])["em"] == 50


def test_record_scores_by_hand() -> None:
    query = f"{Cloze.PLACEHOLDER} won."
    examples = [
        Cloze("p", query, ("the U.S.", "France"), ("US", "United States of America")),
        Cloze("p", query, ("New York City", "Rome"), ("New York",)),
        Cloze("p", query, ("Oslo", "Rome"), ("Rome",)),
        Cloze("p", query, ("Oslo", "Rome")),  # not labelled: not counted
    ]
    scores = EntityCloze().score(examples, ["the U.S.", "New York City", "Oslo", "Oslo"])
    # 1 after normalisation; 2 words of 3 and 2 of 2: F1 4/5; nothing in common.
    assert scores == {"f1": pytest.approx(100 * 1.8 / 3), "em": pytest.approx(100 / 3)}


def test_correlations_agree_with_their_definitions() -> None:
    torch.manual_seed(0)
    gold = (5 * torch.rand(50, dtype=torch.float64)).tolist()
    said = (torch.tensor(gold) + torch.randn(50)).tolist()

    def pearson(a: list[float], b: list[float]) -> float:
        x, y = (torch.tensor(v, dtype=torch.float64) - sum(v) / len(v) for v in (a, b))
        return 100 * float(x @ y / (x.norm() * y.norm()))

    def ranks(values: list[float]) -> list[float]:
        return torch.tensor(values).argsort().argsort().double().tolist()

    scores = Regression().score([Text("a", "b", g) for g in gold], said)
    assert scores["pearson"] == pytest.approx(pearson(gold, said))
    assert scores["spearman"] == pytest.approx(pearson(ranks(gold), ranks(said)))


@pytest.mark.parametrize("said", [[2.0, 2.0, 2.0], [1.0, 2.0, math.nan], [1.0, math.inf, 2.0]])
def test_predictions_without_a_correlation_score_0_and_warn_of_nothing(said: list[float]) -> None:
    examples = [Text("a", "b", value) for value in (1.0, 2.0, 3.0)]
    assert Regression().score(examples, said) == {"pearson": 0.0, "spearman": 0.0}
    same = [replace(e, label=3.0) for e in examples]
    assert Regression().score(same, [1.0, 2.0, 3.0])["pearson"] == 0


def test_a_bounded_value_stays_on_its_scale_and_an_unbounded_one_starts_in_its_middle() -> None:
    trunk = minilm()
    examples = CASES["regression"].made
    for bounded in (True, False):
        task = Regression(bounded=bounded, low=1.0, high=3.0)
        huge = torch.tensor([[-100.0], [0.0], [100.0]])
        expected = [1.0, 2.0, 3.0] if bounded else [-100.0, 0.0, 100.0]
        assert task.values(huge).tolist() == expected
        model = MultiTaskModel(trunk, {"it": task.new_head(trunk)})
        encoded = Regression(bounded=bounded).encode(examples, tokens())
        said, _ = predict(model, "it", task, examples, encoded)
        assert all(abs(value - 2) < 1 for value in said)


def test_a_symmetric_regression_predicts_the_same_in_both_orders() -> None:
    trunk = minilm()
    examples = CASES["regression"].made
    swapped = [replace(e, first=e.second, second=e.first) for e in examples]
    task = Regression(symmetric=True)
    model = MultiTaskModel(trunk, {"it": task.new_head(trunk)})
    one = predict(model, "it", task, examples, task.encode(examples, tokens()))[0]
    other = predict(model, "it", task, swapped, task.encode(swapped, tokens()))[0]
    assert one == pytest.approx(other, abs=1e-5)
    plain = Regression()
    first = predict(model, "it", plain, examples, plain.encode(examples, tokens()))[0]
    second = predict(model, "it", plain, swapped, plain.encode(swapped, tokens()))[0]
    assert one == pytest.approx([(a + b) / 2 for a, b in zip(first, second, strict=True)], abs=1e-5)
    assert first != pytest.approx(second, abs=1e-5)


def test_a_question_is_put_in_the_words_of_its_language() -> None:
    cause = Choices("Pioveva.", "cause", ("a", "b"))
    assert MultipleChoice("it").question(cause) == "perché"
    assert MultipleChoice().question(cause) == "What was the cause of this?"
    assert MultipleChoice(effect="so").question(replace(cause, question="effect")) == "so"
    assert MultipleChoice().question(replace(cause, question="Who?")) == "Who?"
    read = tokens().decode(MultipleChoice("it").encode([cause], tokens()).ids[0].tolist())  # type: ignore[index]
    assert "perche" in read  # MiniLM's tokenizer strips accents


def test_every_language_of_xcopa_is_known() -> None:
    for language in ("et", "ht", "id", "it", "qu", "sw", "ta", "th", "tr", "vi", "zh"):
        rows = records(f"xcopa/val.{language}.jsonl.gz")
        assert {row["question"] for row in rows} <= {"cause", "effect"}
        assert language in QUESTIONS


def test_real_spans_are_the_tokens_of_their_words() -> None:
    examples = wic(200)
    encoded = WordInContext().encode(examples, tokens())
    assert encoded.notes == {"truncated": 0, "spans cut": 0}
    for row, example in enumerate(examples):
        for column, text, span in (
            ("first_span", example.first, example.first_span),
            ("second_span", example.second, example.second_span),
        ):
            start, end = encoded.columns[column][row].tolist()
            found = tokens().decode(encoded.ids[row][start:end].tolist())  # type: ignore[index]
            assert found.replace(" ", "") == text[slice(*span)].lower().replace(" ", "")


def test_real_mentions_are_found_in_texts_of_any_length() -> None:
    examples = wsc(554)
    encoded = PronounResolution().encode(examples, tokens())
    assert encoded.notes["spans cut"] == 0
    short = PronounResolution(max_length=16).encode(examples, tokens())
    assert short.notes["spans cut"] > 0
    assert int(short.columns["second_span"].max()) <= 16


def test_a_span_that_truncation_took_is_counted_and_stands_for_the_first_token() -> None:
    text = "word " * 30 + "end"
    example = Coreference(text, (0, 4), (len(text) - 3, len(text)), 1)
    encoded = PronounResolution(max_length=12).encode([example], tokens())
    assert encoded.notes == {"truncated": 1, "spans cut": 1}
    assert encoded.columns["first_span"].tolist() == [[1, 2]]
    assert encoded.columns["second_span"].tolist() == [[0, 1]]


def test_span_means_against_a_loop() -> None:
    states = torch.randn(3, 7, 4, dtype=torch.float64)
    spans = torch.tensor([[0, 1], [2, 7], [3, 5]])
    expected = torch.stack([states[i, a:b].mean(0) for i, (a, b) in enumerate(spans.tolist())])
    torch.testing.assert_close(span_mean(states, spans), expected)


def test_entities_spelled_alike_are_one_row_and_lost_answers_are_counted() -> None:
    query = f"{Cloze.PLACEHOLDER} won."
    examples = [Cloze("A B", query, ("A", "B", "A"), ("B",)), Cloze("A", query, ("A",), ("C",))]
    encoded = EntityCloze().encode(examples, tokens())
    assert encoded.example.tolist() == [0, 0, 1]
    assert encoded.columns["label"].tolist() == [0, 1, 0]
    assert encoded.notes["answers not among the entities"] == 1
    assert EntityCloze().decode(examples, encoded, [0.5, 0.7, -3.0]) == ["B", "A"]


@pytest.mark.parametrize(
    ("task", "example", "said"),
    [
        (Regression(), Text("a", "b", 5.5, "x"), "'x' has the value 5.5: it must be in 0..5"),
        (Regression(), Text("a", "b", math.nan, "x"), "'x' has the value nan"),
        (Regression(), Text("a", None, 1.0, "x"), "`pair`"),
        (MultipleChoice(), Choices("p", "cause", ("a", "b"), 2, "x"), "0..1, the number of a choice"),
        (MultipleChoice(), Choices("p", "cause", (), None, "x"), "has no choices"),
        (
            MultiAnswer(),
            Candidate("p", "q", "a", 3, "g", "x"),
            "'x' has the label 3: it must be 0 or 1",
        ),
        (EntityCloze(), Cloze("p", "no gap", ("A",), (), "x"), "must hold @placeholder once"),
        (EntityCloze(), Cloze("p", "@placeholder", (), (), "x"), "has no entities"),
        (WordInContext(), WordPair("ab", "cd", (0, 3), (0, 1), 1, "x"), "first_span (0, 3)"),
        (PronounResolution(), Coreference("ab", (0, 1), (1, 1), 1, "x"), "pronoun_span (1, 1)"),
    ],
)
def test_an_example_that_cannot_be_is_named(task: object, example: object, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        task.encode([example], tokens())  # type: ignore[attr-defined]
    assert said in str(caught.value)


def test_a_prediction_that_is_no_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be true or false"):
        MultiAnswer().score([Candidate("p", "q", "a", 1)], ["maybe"])
    with pytest.raises(ValueError, match="text of an entity"):
        EntityCloze().score([Cloze("p", "@placeholder", ("A",), ("A",))], [3])
