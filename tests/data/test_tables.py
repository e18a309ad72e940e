"""`files.tables`: missing values in every format, and Arrow's."""

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


@pytest.mark.parametrize("name", ["a.arrow", "a.ipc", "a.feather"])
def test_arrow_files_streams_and_feather(tmp_path, name):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, ipc

    table = pyarrow.table({"text": ["a", "b"], "label": [0, 1]})
    path = tmp_path / name
    if name.endswith("feather"):
        feather.write_feather(table, path)
    else:
        new = ipc.new_file if name.endswith("ipc") else ipc.new_stream
        with path.open("wb") as file, new(file, table.schema) as writer:
            writer.write_table(table)
    read = data.read("classification", {"train": path})
    assert [(example.first, example.label) for example in read.split("train")] == [("a", 0), ("b", 1)]
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match=rf"{name} cannot be read"):
        data.read("classification", {"train": path})
