"""Scores without skill, and the marks of models that are no better."""

import math
import random
from dataclasses import replace
from statistics import fmean

import pytest

from gradaccord.data.examples import (
    Candidate,
    Choices,
    Cloze,
    Document,
    Line,
    Question,
    Tagged,
    Text,
)
from gradaccord.tasks import (
    Classification,
    EntityCloze,
    MaskedLM,
    MultiAnswer,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    Summarization,
    Tagging,
)
from gradaccord.tasks.references import BELOW, NO_BETTER, ONE_CLASS, reference

MOODS = Classification(labels=("bad", "fair", "good"))
TEXTS = [Text("t", None, label, str(i)) for i, label in enumerate([0] * 140 + [1] * 40 + [2] * 20)]


def of(task, examples, predictions):
    return reference(task, "dev", examples, predictions, task.score(examples, predictions))


@pytest.mark.parametrize("average", ["macro", "binary"])
def test_chance_of_classes_is_what_guessing_scores(average):
    """Accuracy and F1, by simulation of guesses."""
    labels = ("bad", "fair", "good")[: 3 if average == "macro" else 2]
    task = replace(MOODS, labels=labels, average=average)
    examples = [e for e in TEXTS if e.label < len(labels)] * 20
    draw = random.Random(0)
    guessed = [task.score(examples, draw.choices(labels, k=len(examples))) for _ in range(20)]
    told = task.chance(examples, [labels[0]] * len(examples))
    for metric in ("accuracy", "f1"):
        assert told[metric] == pytest.approx(fmean(one[metric] for one in guessed), abs=0.5)


def test_the_majority_of_classes_is_the_most_common_one():
    found = of(MOODS, TEXTS, [MOODS.gold(e) for e in TEXTS])
    assert (found.chance, found.majority, found.mark) == (pytest.approx(100 / 3), 70.0, "")


def test_a_model_that_predicts_one_class_is_marked():
    assert of(MOODS, TEXTS, ["good"] * 200).mark == ONE_CLASS
    alike = [e for e in TEXTS if e.label == 0]  # then one class is the truth
    assert of(MOODS, alike, ["bad"] * 140).mark != ONE_CLASS
    tags = Tagging(labels=("PER",))
    people = [Tagged(("Ann", "ran"), ("B-PER", "O"), "0"), Tagged(("so",), ("O",), "1")]
    assert of(tags, people, [["O", "O"], ["O"]]).mark == ONE_CLASS
    choices = [Choices("p", "q", ("a", "b"), i % 2, str(i)) for i in range(10)]
    assert of(MultipleChoice(), choices, [1] * 10).mark == ONE_CLASS


@pytest.mark.parametrize(
    ("right", "mark"), [(120, BELOW), (130, NO_BETTER), (150, NO_BETTER), (154, ""), (190, "")]
)
def test_noise_is_two_standard_errors_of_a_share(right, mark):
    """Majority 140 of 200: the standard error is 3.24 points, 6.48 of 200 examples; two are 13."""
    gold = [MOODS.gold(e) for e in TEXTS]
    wrong = {"bad": "fair", "fair": "good", "good": "bad"}
    assert of(MOODS, TEXTS, gold[:right] + [wrong[g] for g in gold[right:]]).mark == mark


def test_numbers():
    """A correlation of nothing is 0, and its standard error 1 / sqrt(n - 1)."""
    draw = random.Random(1)
    texts = [Text("t", None, draw.gauss(0, 1), str(i)) for i in range(101)]
    found = of(Regression(), texts, [draw.gauss(0, 1) for _ in texts])
    assert (found.chance, found.majority, found.mark) == (0.0, 0.0, NO_BETTER)
    assert Regression().standard_error(0.0, 101) == pytest.approx(10.0)
    assert of(Regression(), texts, [2 * e.label + draw.gauss(0, 1) for e in texts]).mark == ""


def test_choices_cloze_and_several_answers():
    choices = [Choices("p", "q", ("a", "b"), 1, "0"), Choices("p", "q", ("a", "b", "c", "d"), 1, "1")]
    found = of(MultipleChoice(), choices, [0, 1])
    assert (found.chance, found.majority) == (37.5, 100.0)
    gaps = [Cloze("p", "@placeholder", ("A", "B", "C", "D"), ("B",), str(i)) for i in range(2)]
    found = of(EntityCloze(), gaps, ["B", "B"])
    assert (found.chance, found.majority) == (25.0, 0.0)
    answers = [Candidate("p", "q", str(i), int(i < 4)) for i in range(10)]
    found = of(MultiAnswer(), answers, [True, False] * 5)
    assert found.majority == pytest.approx(100 * 2 * 0.4 / 1.4)  # all are right
    draw = random.Random(0)
    many = answers * 100
    guessed = [
        MultiAnswer().score(many, draw.choices([True, False], k=len(many)))["f1a"] for _ in range(50)
    ]
    assert found.chance == pytest.approx(fmean(guessed), abs=0.5)
    pairs = [Candidate("p", str(i // 2), str(i % 2), 1) for i in range(8)] + [
        Candidate("p", "z", "a", 0)
    ]
    assert of(MultiAnswer(metric="em"), pairs, [True] * 9).chance == 30.0  # (4 / 4 + 1 / 2) / 5


def test_questions_without_an_answer_are_the_majority_where_they_count():
    asked = [Question("q", "Ann ran.", ("Ann",), (0,), str(i)) for i in range(3)]
    asked.append(Question("q", "Ann ran.", (), (), "3"))
    found = of(QuestionAnswering(unanswerable=True), asked, ["Ann"] * 4)
    assert (found.chance, found.majority) == (0.0, 25.0)
    found = of(QuestionAnswering(), asked[:3], ["Ann"] * 3)
    assert (found.chance, found.majority, found.mark) == (0.0, 0.0, "")


def test_summaries_are_seen_beside_the_beginning_and_another_summary():
    papers = [
        Document("one two three four", ("one two",), "0"),
        Document("five six seven", ("seven six",), "1"),
        Document("not labelled", (), "2"),
    ]
    found = of(Summarization(), papers, ["one two", "seven six", "x"])
    expected = Summarization().score(papers, ["one two", "five six", "x"])
    assert found.majority == expected["rougeL"] == pytest.approx(75.0)
    assert found.chance in (0.0, 100.0)  # of two summaries, in a drawn order


def test_masked_tokens_and_tags():
    lines = [Line("a b c d", "0")]
    said = [{"tokens": [1, 1, 1, 1], "masked": [1, 1, 2, 3], "loss": 1.0}]
    found = of(MaskedLM(), lines, said)
    assert (found.chance, found.majority) == (pytest.approx(100 / 3), 50.0)
    found = of(MaskedLM(metric="loss"), lines, said)
    assert found.chance == pytest.approx(-math.log(3))
    assert found.majority == pytest.approx(-(math.log(2) + math.log(4)) / 2)  # the entropy
    assert found.mark == ""
    people = [Tagged(("Ann", "ran"), ("B-PER", "O"), str(i)) for i in range(200)]
    found = of(Tagging(labels=("PER",)), people, [["B-PER", "O"]] * 200)
    assert found.majority == 0.0
    assert 0.0 < found.chance < 50.0
    assert found.mark == ""
