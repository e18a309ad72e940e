"""The `cldr` problem: nothing that is tested was seen, and everybody gets the same data."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from hashlib import sha256

import pytest
import torch

from gradaccord.data.text import cldr


def fingerprint() -> str:
    problem = cldr.load(seed=3)
    texts = [(task.train.texts, task.test.texts) for task in problem.tasks.values()]
    labels = [task.train.labels.tolist() for task in problem.tasks.values()]
    return sha256(repr((texts, labels, problem.vocabulary.characters)).encode()).hexdigest()


@pytest.fixture(scope="module")
def problem() -> cldr.CLDR:
    return cldr.load()


def test_no_test_concept_is_seen_in_any_language(problem: cldr.CLDR) -> None:
    trained = {concept for task in problem.tasks.values() for concept in task.train.concepts}
    chosen_by = {concept for task in problem.tasks.values() for concept in task.dev.concepts}
    tested = {concept for task in problem.tasks.values() for concept in task.test.concepts}
    assert trained
    assert chosen_by
    assert tested
    assert not trained & tested
    assert not trained & chosen_by
    assert not chosen_by & tested


def test_no_test_string_is_seen_in_any_language(problem: cldr.CLDR) -> None:
    trained = {text.casefold() for task in problem.tasks.values() for text in task.train.texts}
    chosen_by = {text.casefold() for task in problem.tasks.values() for text in task.dev.texts}
    tested = {text.casefold() for task in problem.tasks.values() for text in task.test.texts}
    assert not trained & tested
    assert not trained & chosen_by
    assert not chosen_by & tested


def test_unseen_languages_are_tested_on_the_same_concepts(problem: cldr.CLDR) -> None:
    trained = {concept for task in problem.tasks.values() for concept in task.train.concepts}
    for language in cldr.UNSEEN_LANGUAGES:
        assert language not in problem.tasks
        tested = [name for name in cldr.names(language) if cldr.split_of(name.concept) == "test"]
        assert len(tested) > 100
        assert not trained & {name.concept for name in tested}


@pytest.mark.parametrize("language", cldr.LANGUAGES)
def test_train_counts_are_imbalanced_and_test_sets_full(problem: cldr.CLDR, language: str) -> None:
    task = problem.tasks[language]
    available = sum(cldr.split_of(name.concept) == "train" for name in cldr.names(language))
    # A language may have fewer translated names than its share (Filipino: some 150 of 300).
    assert len(task.train) == pytest.approx(min(cldr.TRAIN_SIZES[language], available), abs=10)
    assert len(task.test) == sum(cldr.split_of(name.concept) == "test" for name in cldr.names(language))
    assert set(task.test.labels.tolist()) == set(range(len(problem.kinds)))


@pytest.mark.parametrize("language", [x for x in cldr.LANGUAGES if x != "en"])
def test_strings_equal_to_english_are_dropped(language: str) -> None:
    english = {name.text.casefold() for name in cldr.names("en")}
    assert "berlin" in english
    assert not english & {name.text.casefold() for name in cldr.names(language)}


@pytest.mark.parametrize("language", [*cldr.LANGUAGES, "fr", "zu"])
def test_a_text_has_one_answer(language: str) -> None:
    texts = [name.text.casefold() for name in cldr.names(language)]
    assert len(texts) == len(set(texts))
    assert "singapore" not in texts  # a city and a territory


def test_variants_of_a_concept_stay_together() -> None:
    concepts = {name.text: name.concept for name in cldr.names("en")}
    assert concepts["Austrian German"] == concepts["German"]
    assert concepts["Zimbabwean Dollar (2008)"] == concepts["Zimbabwean Dollar (1980–2008)"]
    kolkata = {name.text: name.concept for name in cldr.names("de")}["Kalkutta"]
    assert concepts["Kolkata"] == kolkata  # CLDR files it under the older Asia/Calcutta


def test_the_seed_draws_the_training_names_and_nothing_else(problem: cldr.CLDR) -> None:
    other = cldr.load(seed=1)
    assert other.tasks["sw"].train.texts != problem.tasks["sw"].train.texts
    assert other.tasks["sw"].test.texts == problem.tasks["sw"].test.texts
    assert other.vocabulary.characters == problem.vocabulary.characters


def test_every_process_gets_the_same_data() -> None:
    other = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == fingerprint()


def test_loads_within_three_seconds() -> None:
    cldr.names.cache_clear()
    started = time.process_time()
    cldr.load()
    assert time.process_time() - started < 3


def test_encoding_pads_cuts_and_marks_the_unknown() -> None:
    vocabulary = cldr.Vocabulary.of(["ab", "ba"])
    assert len(vocabulary) == 5
    expected = torch.tensor([[3, 4, 0], [4, vocabulary.UNKNOWN, 3]])
    assert torch.equal(vocabulary.encode(["ab", "bxab"], max_length=3), expected)
    assert vocabulary.encode([]).shape == (0, 0)


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(ValueError, match=r"'xx', which CLDR does not know"):
        cldr.load(["de", "xx"])
    with pytest.raises(ValueError, match="`languages` is empty"):
        cldr.load([])


def test_without_babel_the_remedy_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "gradaccord\[demo\]"'):
        cldr.load(["lv"])  # not read before


if __name__ == "__main__":
    print(fingerprint())
