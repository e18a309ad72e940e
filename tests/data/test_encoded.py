"""`encoded`: sequences of any length, batches cut from rows, and what is kept in a file."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradaccord.data.encoded import IGNORED, Encoded, Ragged

SEQUENCES = st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=8)


@given(SEQUENCES, st.data())
@settings(max_examples=40, deadline=None)
def test_ragged_sequences_are_the_lists_they_were_made_of(sequences, data):
    ragged = Ragged.of(sequences)
    assert [ragged[i].tolist() for i in range(len(ragged))] == sequences
    assert ragged.lengths.tolist() == [*map(len, sequences)]
    places = data.draw(st.lists(st.integers(0, len(sequences) - 1), min_size=1, max_size=5))
    width = max(len(sequences[p]) for p in places) + data.draw(st.integers(0, 2))
    padded = ragged.padded(torch.tensor(places), -7, width)
    assert padded.tolist() == [sequences[p] + [-7] * (width - len(sequences[p])) for p in places]
    assert ragged.lengths_of(torch.tensor(places)).tolist() == [len(sequences[p]) for p in places]


def two_sequences_a_row() -> Encoded:
    """Three rows of two, one and two sequences; the last two rows are of one example."""
    ids = [[5, 6, 7], [8], [9, 9], [3, 4], [2, 2, 2, 2]]
    return Encoded(
        ids=Ragged.of(ids),
        first=torch.tensor([0, 2, 3, 5]),
        example=torch.tensor([0, 1, 1]),
        types=Ragged.of([[i] * len(own) for i, own in enumerate(ids)]),
        columns={"label": torch.tensor([1, 0, 2])},
        tokens={"tags": Ragged.of([[10 * i for i in own] for own in ids], torch.int64)},
        aside={"offsets": Ragged.of([[0]] * 5)},
        notes={"truncated": 1},
        pad=1,
    )


def test_a_batch_has_the_sequences_of_its_rows_in_their_order():
    encoded = two_sequences_a_row()
    assert encoded.lengths.tolist() == [3, 2, 4]
    batch = encoded.batch([2, 0])
    assert batch["input_ids"].tolist() == [[3, 4, 1, 1], [2, 2, 2, 2], [5, 6, 7, 1], [8, 1, 1, 1]]
    assert batch["attention_mask"].sum(1).tolist() == [2, 4, 3, 1]
    assert batch["token_type_ids"].tolist() == [[3, 3, 0, 0], [4] * 4, [0] * 4, [1, 0, 0, 0]]
    assert batch["tags"].tolist()[0] == [30, 40, IGNORED, IGNORED]
    assert batch["row"].tolist() == [0, 0, 1, 1]
    assert batch["label"].tolist() == [2, 1]
    assert "offsets" not in batch


def test_rows_of_one_sequence_need_no_places():
    encoded = Encoded.single([[4, 5], [6]], pad=0)
    assert encoded.batch([1, 0]).keys() == {"input_ids", "attention_mask"}
    assert encoded.example.tolist() == [0, 1]


def test_rows_without_tokens_have_their_columns_alone():
    images = Encoded(
        ids=None, first=torch.arange(3), example=torch.arange(2), columns={"x": torch.ones(2, 3)}
    )
    assert images.lengths.tolist() == [1, 1]
    assert images.batch([1]).keys() == {"x"}


def test_what_is_kept_in_a_file_is_put_together_again():
    encoded = two_sequences_a_row()
    again = Encoded.of_parts(*encoded.parts())
    assert (again.notes, again.pad) == ({"truncated": 1}, 1)
    one, other = encoded.batch([0, 1, 2]), again.batch([0, 1, 2])
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(again.aside["offsets"].starts, encoded.aside["offsets"].starts)
    assert torch.equal(again.example, encoded.example)
