"""`data.label_noise`: wrong labels on purpose."""

from __future__ import annotations

import pytest

from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Tagged, Text
from gradaccord.data.label_noise import with_label_noise

ROWS = [Text(f"text {n}", None, n % 5, str(n)) for n in range(2000)]
CLASSES = ("a", "b", "c", "d", "e")
SET = Dataset("t", "classification", {"train": ROWS, "dev": ROWS[:10]}, CLASSES)


def wrong(share, seed=0):
    noisy = with_label_noise(SET, share, seed=seed).splits["train"]
    assert [e.first for e in noisy] == [e.first for e in ROWS]
    pairs = zip(ROWS, noisy, strict=True)
    return {row: new.label for row, (old, new) in enumerate(pairs) if new.label != old.label}


def test_a_share_of_the_training_labels_is_another_class():
    changed = wrong(0.1)
    assert len(changed) == pytest.approx(200, rel=0.2)
    steps = [(label - ROWS[row].label) % 5 for row, label in changed.items()]
    assert all(30 < steps.count(step) < 70 for step in (1, 2, 3, 4))  # every other class
    assert with_label_noise(SET, 0.1).splits["dev"] == ROWS[:10]
    assert len(wrong(1.0)) == 2000
    assert not wrong(0.0)


def test_more_noise_adds_to_less_and_another_seed_draws_others():
    few, many = wrong(0.1), wrong(0.3)
    assert few.items() <= many.items()
    assert wrong(0.1) == few
    assert few.keys() != wrong(0.1, seed=1).keys()


def test_labels_that_are_unknown_stay_so():
    hidden = Dataset("t", "classification", {"train": [Text("x", None, None, "0")]}, CLASSES)
    assert with_label_noise(hidden, 1.0).splits["train"][0].label is None


def test_what_cannot_be_noisy():
    with pytest.raises(ValueError, match="`label_noise` is 1.5: it is a share"):
        with_label_noise(SET, 1.5)
    with pytest.raises(ValueError, match="`ner` is a tagging task: leave it out"):
        with_label_noise(Dataset("ner", "tagging", {"train": [Tagged(("a",), ("O",))]}), 0.1)
