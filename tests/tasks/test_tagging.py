"""Tags of words: pieces and windows, IOB2, seqeval's figures, greedy and constrained decoding."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from kinds_support import tokens
from qa_support import sentences

from gradaccord.data.encoded import IGNORED
from gradaccord.data.examples import Tagged
from gradaccord.tasks.kinds.tagging import Tagging, best_sequence, check_tags, tag_names
from gradaccord.tasks.registry import build, options

TASK = Tagging(("PER", "LOC"))
SENTENCE = Tagged(
    ("Ada", "Lovelace-Byron", "visited", "Llanfairpwllgwyngyll", "."),
    ("B-PER", "I-PER", "O", "B-LOC", "O"),
    "s",
)


def certain(task: Tagging, encoded_tags: torch.Tensor) -> torch.Tensor:
    """Scores that leave no doubt about the tags; about other tokens, they say something wrong."""
    wanted = encoded_tags.where(encoded_tags != IGNORED, len(task.tags) - 1)
    return torch.nn.functional.one_hot(wanted.long(), len(task.tags)).float()


def test_the_first_piece_of_a_word_has_its_tag() -> None:
    encoded = TASK.encode([SENTENCE], tokens())
    tags, words = encoded.tokens["tags"][0].tolist(), encoded.aside["words"][0].tolist()
    assert [TASK.tags[tag] for tag in tags if tag != IGNORED] == list(SENTENCE.tags)
    assert [word for word in words if word >= 0] == [0, 1, 2, 3, 4]
    assert len(tags) > len(SENTENCE.words) + 2  # there are pieces
    assert tags[0] == tags[-1] == IGNORED  # special tokens


@pytest.mark.parametrize("length", [6, 8, 16, 128])
def test_no_word_of_a_long_sentence_is_lost(length: int) -> None:
    task = Tagging(("PER", "LOC"), max_length=length)
    long = Tagged(SENTENCE.words * 9, SENTENCE.tags * 9, "long")
    examples = [SENTENCE, long]
    encoded = task.encode(examples, tokens())
    assert int(encoded.lengths.max()) <= length
    rows = [certain(task, encoded.tokens["tags"][row]) for row in range(len(encoded))]
    assert task.decode(examples, encoded, rows) == [list(e.tags) for e in examples]
    several = encoded.example.bincount() > 1
    assert bool(several[1])
    assert encoded.notes["sentences in several windows"] == int(several.sum())


def test_words_without_a_piece_are_outside_and_counted() -> None:
    example = Tagged(("Ada", "\u200b", "sang"), ("B-PER", "O", "O"))
    encoded = TASK.encode([example], tokens())
    assert encoded.notes["words without a piece"] == 1
    rows = [certain(TASK, encoded.tokens["tags"][0])]
    assert TASK.decode([example], encoded, rows) == [["B-PER", "O", "O"]]


def test_unlabelled_sentences_are_tagged_all_the_same() -> None:
    example = Tagged(SENTENCE.words)
    encoded = TASK.encode([example], tokens())
    assert encoded.notes["not labelled"] == 1
    rows = [torch.zeros(int(encoded.lengths[0]), 5)]
    assert TASK.decode([example], encoded, rows) == [["O"] * 5]
    with pytest.raises(ValueError, match="labelled"):
        TASK.score([example], [["O"] * 5])


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (("I-PER", "O"), "'x' has 'I-PER' at word 1 after 'O'.*'B-PER'"),
        (("B-LOC", "I-PER"), "'x' has 'I-PER' at word 2 after 'B-LOC'"),
        (("B-ORG", "O"), "'x' has the tag 'B-ORG' at word 1"),
        (("S-PER", "O"), "'x' has the tag 'S-PER'"),
        (("O",), "'x' has 1 tags for 2 words"),
    ],
)
def test_impossible_tags_are_an_error_that_names_the_example(tags: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TASK.encode([SENTENCE, Tagged(("a", "b"), tags, "x")], tokens())


def test_perfect_wrong_and_empty_files() -> None:
    gold = [TASK.gold(SENTENCE)]
    assert TASK.score([SENTENCE], gold) == {"f1": 100.0, "precision": 100.0, "recall": 100.0}
    wrong = [["B-LOC", "O", "B-PER", "B-PER", "O"]]
    assert set(TASK.score([SENTENCE], wrong).values()) == {0.0}
    assert set(TASK.score([SENTENCE], [["O"] * 5]).values()) == {0.0}
    for bad, said in (([], "0 predictions"), ([["O"]], "each of its 5 words"), ([["X"] * 5], "'s' is")):
        with pytest.raises(ValueError, match=said):
            TASK.score([SENTENCE], bad)


def test_an_entity_counts_whole_or_not_at_all() -> None:
    scores = TASK.score([SENTENCE], [["B-PER", "O", "O", "B-LOC", "O"]])
    assert scores["precision"] == scores["recall"] == 50
    # Strict IOB2: an entity that does not begin with B- is none.
    scores = TASK.score([SENTENCE], [["I-PER", "I-PER", "O", "B-LOC", "O"]])
    assert scores["precision"] == 100
    assert scores["recall"] == 50


def test_constrained_decoding_equals_brute_force() -> None:
    names = tag_names(("PER", "LOC"))
    scores = torch.randn(20, 4, len(names), dtype=torch.float64, generator=torch.manual_seed(1))

    def allowed(path: tuple[int, ...]) -> bool:
        try:
            check_tags([names[tag] for tag in path], names, "")
        except ValueError:
            return False
        return True

    paths = [path for path in product(range(len(names)), repeat=4) if allowed(path)]
    differs = 0
    for sentence in scores:
        best = max(
            paths, key=lambda path: sum(float(s[t]) for s, t in zip(sentence, path, strict=True))
        )
        assert best_sequence(sentence, names) == list(best)
        differs += sentence.argmax(-1).tolist() != list(best)
    assert differs  # greedy alone would not do


def test_constrained_decoding_of_sentences_in_windows() -> None:
    task = Tagging(("PER", "LOC"), max_length=8, decoding="constrained")
    examples = [SENTENCE, Tagged(SENTENCE.words * 3, SENTENCE.tags * 3)]
    encoded = task.encode(examples, tokens())
    rows = [torch.randn(int(n), 5, generator=torch.manual_seed(int(n))) for n in encoded.lengths]
    for tags in task.decode(examples, encoded, rows):
        check_tags(tags, task.tags, "predicted")
    greedy = Tagging(("PER", "LOC"), max_length=8).decode(examples, encoded, rows)
    assert [len(tags) for tags in greedy] == [5, 15]


@pytest.mark.parametrize(
    "corpus", ["wikiann/de", "masakhaner2/yor", "mahaner/mr", "kaznerd/kk", "hiner/hi"]
)
def test_real_corpora_are_encoded_whole(corpus: str) -> None:
    name = next(
        (f"ner/{corpus}/{split}.conll.gz" for split in ("dev", "validation")
         if corpus.startswith("hiner") == (split == "validation")),
    )  # fmt: skip
    examples = sentences(name, 300)
    task = Tagging(("PER", "LOC", "ORG", "DATE"))
    encoded = task.encode(examples, tokens())
    rows = [certain(task, encoded.tokens["tags"][row]) for row in range(len(encoded))]
    predicted = task.decode(examples, encoded, rows)
    words = sum(len(example.words) for example in examples)
    lost = encoded.notes["words without a piece"]
    wrong = sum(
        a != b for e, tags in zip(examples, predicted, strict=True)
        for a, b in zip(e.tags, tags, strict=True)
    )  # fmt: skip
    assert wrong <= lost <= 0.01 * words


def test_options_round_trip_and_errors() -> None:
    task = Tagging(("PER",), max_length=64, decoding="constrained")
    assert build("tagging", **options(task)) == task
    with pytest.raises(ValueError, match="`decoding` is 'viterbi'"):
        Tagging(("PER",), decoding="viterbi")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`labels` is empty"):
        Tagging(())
