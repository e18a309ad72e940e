"""F1 and exact match on the edge cases of the scripts of SQuAD 1.1, SQuAD 2.0 and MLQA."""

from __future__ import annotations

import random

import pytest

from gradaccord.data.examples import Question
from gradaccord.tasks.kinds.question_answering import QuestionAnswering
from gradaccord.tasks.qa.scoring import best_match, best_null_threshold, normalised


def score(
    prediction: str, *answers: str, unanswerable: bool = False, **more: str
) -> tuple[float, float]:
    how = more.pop("how", "squad")
    example = Question("?", "", answers, (), more.get("language", "en"))
    return best_match(prediction, example, how, unanswerable=unanswerable)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The  Eiffel-Tower!", "eiffeltower"),
        ("a cat, an owl & the dog", "cat owl dog"),
        ("theatre Another an-", "theatre another"),  # articles are whole words, after punctuation went
        ("the-theory", "thetheory"),
        ("“quoted”", "“quoted”"),  # SQuAD knows ASCII punctuation alone
        ("\u00a0non\u2003breaking\n", "non breaking"),
        ("A", ""),
        ("$5.00", "500"),
    ],
)
def test_squad_normalisation(text: str, words: str) -> None:
    assert normalised(text, "squad") == words.split()


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "The “Eiffel” Tower", "eiffel tower"),
        ("de", "Der Turm des Eiffel, eine Sache", "turm eiffel sache"),
        ("es", "Los Reyes y la «Torre»", "reyes y torre"),
        ("vi", "những ngôi nhà của tôi", "ngôi nhà tôi"),
        ("hi", "दिल्ली। का", "दिल्ली का"),
        ("ar", "القاهرة، مصر", "قاهرة مصر"),
        ("zh", "《金属圣典》是 Heavy Metal 的2007年", "金 属 圣 典 是 heavy metal 的 2007 年"),
        ("zh", "the a", "the a"),  # another language's articles stay
    ],
)
def test_mlqa_normalisation_by_language(language: str, text: str, words: str) -> None:
    assert normalised(text, "mlqa", language) == words.split()


def test_mlqa_knows_its_seven_languages_only() -> None:
    with pytest.raises(ValueError, match="'fi'.*ar.*zh"):
        QuestionAnswering(normalise="mlqa").score([Question("?", "x", ("x",), (0,), "fi")], ["x"])


def test_a_question_in_another_language_is_scored_by_its_contexts() -> None:
    assert score("den Turm", "Turm", how="mlqa", language="de-en") == (1, 1)


def test_best_of_several_answers_each_metric_of_its_own() -> None:
    assert score(
        "in the 10th and 11th centuries", "10th and 11th centuries", "in the 10th century"
    ) == (
        pytest.approx(2 * 4 / (5 + 4)),
        0,
    )
    assert score("France", "Germany", "france.") == (1, 1)


def test_words_count_as_often_as_they_occur() -> None:
    assert score("new new york", "new york city")[0] == pytest.approx(2 * 2 / 6)


def test_both_empty_after_normalisation() -> None:
    assert score("the", "a") == (0, 1)  # SQuAD 1.1 and MLQA: F1 finds no common word
    assert score("the", "a", unanswerable=True) == (1, 1)  # such an answer means none in SQuAD 2


def test_no_answer_in_squad_2() -> None:
    assert score("", unanswerable=True) == (1, 1)
    assert score("something", unanswerable=True) == (0, 0)
    assert score("", "France", unanswerable=True) == (0, 0)
    assert score("France", "the", "France", unanswerable=True) == (1, 1)  # empty golds do not count


EXAMPLES = [
    Question("?", "It is Paris.", ("Paris", "in Paris"), (6, 6), id="a"),
    Question("?", "It is Rome.", ("Rome",), (6,), id="b"),
    Question("?", "It is Bonn.", (), (), id="c"),
]


def test_perfect_wrong_and_empty_files() -> None:
    task = QuestionAnswering(unanswerable=True)
    gold = [task.gold(example) for example in EXAMPLES]
    assert gold == ["Paris", "Rome", ""]
    assert set(task.score(EXAMPLES, gold).values()) == {100.0}
    assert set(task.score(EXAMPLES, ["Oslo", "", "Bonn"]).values()) == {0.0}
    with pytest.raises(ValueError, match="0 predictions for 3"):
        task.score(EXAMPLES, [])
    with pytest.raises(ValueError, match="'a' is None"):
        task.score(EXAMPLES, [None, "", ""])
    plain = QuestionAnswering()
    assert plain.score(EXAMPLES, ["Paris", "Oslo", "ignored"]) == {"f1": 50.0, "exact_match": 50.0}
    with pytest.raises(ValueError, match="None of the 1 examples is labelled"):
        plain.score(EXAMPLES[2:], ["x"])
    with pytest.raises(ValueError, match="no example"):
        plain.score([], [])


def test_figures_of_answerable_and_unanswerable_questions() -> None:
    scores = QuestionAnswering(unanswerable=True).score(EXAMPLES, ["Paris", "Oslo", ""])
    assert scores["has_answer_f1"] == 50
    assert scores["no_answer_f1"] == 100
    assert scores["f1"] == pytest.approx(200 / 3)


def test_a_blank_answer_is_none() -> None:
    blank = Question("?", "x", ("",), (0,))
    assert QuestionAnswering().gold(blank) is None
    assert QuestionAnswering(unanswerable=True).gold(blank) == ""


@pytest.mark.parametrize("seed", range(30))
def test_best_null_threshold_equals_brute_force(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(1, 25)
    # Few different odds, so that many are tied; negative ones too, as log-odds are.
    odds = [draw.choice([-3.5, -1.0, 0.0, 0.25, 2.0, draw.gauss(0, 2)]) for _ in range(count)]
    answerable = [draw.random() < 0.6 for _ in range(count)]
    answered = [draw.random() < 0.9 for _ in range(count)]
    scores = [
        draw.choice([0.0, 1.0, draw.random()]) if has and text else float(not has and not text)
        for has, text in zip(answerable, answered, strict=True)
    ]

    def at(threshold: float) -> float:
        each = [
            float(not has) if odd > threshold else score
            for has, score, odd in zip(answerable, scores, odds, strict=True)
        ]
        return 100 * sum(each) / count

    best = best_null_threshold(scores, answered, answerable, odds)
    assert best.score == pytest.approx(max(at(t) for t in [*odds, -1e9, 1e9]))
    assert at(best.threshold) == pytest.approx(best.score)


def test_the_best_threshold_gives_the_score_it_promises() -> None:
    predictions = [
        {"answer": "", "best_answer": "Paris", "null_odds": 1.5},
        {"answer": "", "best_answer": "Rome", "null_odds": 1.0},
        {"answer": "", "best_answer": "Bonn", "null_odds": 2.0},
    ]
    task = QuestionAnswering(unanswerable=True)
    scores = task.score(EXAMPLES, predictions)
    assert scores["f1"] == pytest.approx(100 / 3)
    assert scores["best_f1"] == 100
    threshold = task.best_threshold(EXAMPLES, predictions).threshold
    assert threshold == 1.5
    answers = ["" if p["null_odds"] > threshold else p["best_answer"] for p in predictions]
    assert task.score(EXAMPLES, answers)["f1"] == 100


@pytest.mark.parametrize(
    ("option", "value"), [("normalise", "sqad"), ("split", "words"), ("stride", -1), ("n_best", 0)]
)
def test_wrong_options_name_the_field_and_the_value(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"`{option}` is '?{value}"):
        QuestionAnswering(**{option: value})  # type: ignore[arg-type]
