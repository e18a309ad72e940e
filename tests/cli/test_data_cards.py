"""What the data of a task is like, within 80 columns and without markup of its own."""

from __future__ import annotations

from printed import printed

from gradaccord.cli.data_cards import CLASSES, card_table
from gradaccord.tasks.data_card import DataCard, SplitCard


def test_a_split_has_its_counts_lengths_and_classes():
    split = SplitCard(
        1234,
        1234,
        1200,
        {"no": 300, "[b]yes": 900},
        repeated=5,
        lengths={50: 7, 95: 20, 99: 30, 100: 41},
    )
    text = printed(card_table(DataCard("film", "classification", {"train": split}, "[CLS] a", "yes")))
    lines = text.splitlines()
    assert lines[0] == "film: classification"
    assert ["train", "1,234", "1,200", "0", "5", "7/20/41", "0.0%"] in [line.split() for line in lines]
    assert "classes of train: [b]yes 75.0 %, no 25.0 %" in text
    assert "as the model sees it: [CLS] a" in text
    assert "its answer: yes" in text
    assert max(map(len, lines)) <= 80


def test_warnings_are_sentences_and_many_classes_are_cut():
    classes = {f"class {i}": 1 for i in range(200)} | {"gone": 0}
    split = SplitCard(200, 200, 200, classes, empty=3, also_in={"train": 2})
    text = printed(card_table(DataCard("film", "classification", {"dev": split})))
    words = " ".join(text.split())
    assert "Warning: film dev: no example of the class gone." in words
    assert "Warning: film dev: 3 examples have an empty text." in words
    assert "2 of 200 examples also occur in train." in words
    assert "..." in words
    assert len(words.partition("classes of dev: ")[2].partition("...")[0]) <= CLASSES
    assert ["dev", "200", "200", "3", "0", "-", "0.0%"] in [line.split() for line in text.splitlines()]
