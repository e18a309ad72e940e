"""The `cldr` problem: nothing that is tested was seen, and everybody gets the same data."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from hashlib import sha256

import pytest

from gradaccord.data.text import cldr


def fingerprint() -> str:
    sets = [cldr.dataset(language).splits for language in cldr.LANGUAGES]
    return sha256(repr(sets).encode()).hexdigest()


def concepts(split: str) -> set[str]:
    found = (e.id for language in cldr.LANGUAGES for e in cldr.dataset(language).split(split))
    return {id.split("-", 2)[2] for id in found}


def test_no_test_concept_is_seen_in_any_language() -> None:
    trained, chosen_by, tested = (concepts(split) for split in ("train", "dev", "test"))
    assert trained
    assert chosen_by
    assert tested
    assert not trained & tested
    assert not trained & chosen_by
    assert not chosen_by & tested


def test_no_test_string_is_seen_in_any_language() -> None:
    sets = [cldr.dataset(language) for language in cldr.LANGUAGES]
    trained, chosen_by, tested = (
        {example.first.casefold() for each in sets for example in each.split(split)}
        for split in ("train", "dev", "test")
    )
    assert not trained & tested
    assert not trained & chosen_by
    assert not chosen_by & tested


def test_unseen_languages_are_tested_on_the_same_concepts() -> None:
    trained = concepts("train")
    for language in cldr.UNSEEN_LANGUAGES:
        assert language not in cldr.LANGUAGES
        tested = [name for name in cldr.names(language) if cldr.split_of(name.concept) == "test"]
        assert len(tested) > 100
        assert not trained & {name.concept for name in tested}


@pytest.mark.parametrize("language", cldr.LANGUAGES)
def test_train_counts_are_imbalanced_and_test_sets_full(language: str) -> None:
    train, test = (cldr.dataset(language).split(split) for split in ("train", "test"))
    available = sum(cldr.split_of(name.concept) == "train" for name in cldr.names(language))
    # A language may have fewer translated names than its share (Filipino: some 150 of 300).
    assert len(train) == pytest.approx(min(cldr.TRAIN_SIZES[language], available), abs=10)
    assert len(test) == sum(cldr.split_of(name.concept) == "test" for name in cldr.names(language))
    assert {example.label for example in test} == set(range(len(cldr.KINDS)))


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
    english = {name.text: name.concept for name in cldr.names("en")}
    assert english["Austrian German"] == english["German"]
    assert english["Zimbabwean Dollar (2008)"] == english["Zimbabwean Dollar (1980–2008)"]
    kolkata = {name.text: name.concept for name in cldr.names("de")}["Kalkutta"]
    assert english["Kolkata"] == kolkata  # CLDR files it under the older Asia/Calcutta


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
    for language in cldr.LANGUAGES:
        cldr.dataset(language)
    assert time.process_time() - started < 3


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(ValueError, match=r"'xx', which CLDR does not know"):
        cldr.dataset("xx")
    with pytest.raises(ValueError, match="choose one, such as 'cldr/"):
        cldr.dataset("")


def test_without_babel_the_remedy_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "gradaccord\[demo\]"'):
        cldr.dataset("lv")  # not read before


if __name__ == "__main__":
    print(fingerprint())
