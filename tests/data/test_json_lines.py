"""`text.json_lines`: columns by name, and ids of rows."""

from __future__ import annotations

from data_files import jsonl, put

from gradaccord.data.examples import Text
from gradaccord.data.files.layouts import Wanted
from gradaccord.data.files.text_files import File
from gradaccord.data.text.json_lines import JsonLines


def test_a_row_keeps_its_id_even_0_and_is_else_numbered(tmp_path) -> None:
    rows = {"one": " a", "two": "b", "label": 1, "idx": 0}, {"one": "c", "two": "d", "label": 0}
    files = [File(put(tmp_path, f"{i}.jsonl.gz", jsonl(row))) for i, row in enumerate(rows)]
    read = JsonLines("classification", {"first": "one", "second": "two"})
    examples = [e for file in files for e in read(file, Wanted("train", "en", ("no", "yes")))]
    assert examples == [Text("a", "b", 1, "0"), Text("c", "d", 0, "train-0")]
