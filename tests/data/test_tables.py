"""`files.tables`: missing values in every format."""

from __future__ import annotations

import pytest
from data_files import write

from gradaccord import data


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_null_in_a_text_is_no_word_whatever_the_format(tmp_path, name):
    rows = [{"text": "fine", "label": "x"}, {"text": None, "label": "y"}]
    with pytest.raises(ValueError, match=rf"{name}, line 2: 'text' is missing: give a text"):
        data.read("classification", {"train": write(tmp_path / name, rows)})


def test_an_empty_cell_of_csv_and_tsv_is_an_empty_text(tmp_path):
    for ending, comma in (("csv", ","), ("tsv", "\t")):
        (tmp_path / f"a.{ending}").write_text(f"text{comma}label\n{comma}x\nb{comma}y\n")
        read = data.read("classification", {"train": tmp_path / f"a.{ending}"})
        assert [example.first for example in read.split("train")] == ["", "b"]
