"""`text.tsv`: columns and lines that are not as they should be."""

from __future__ import annotations

from data_files import put, refused

HEADER = "sentence\tlabel\n"


def test_missing_column(tmp_path):
    put(tmp_path, "SST-2/train.tsv", "text\tlabel\nfine\t1\n")
    message = refused("sst2", tmp_path)
    assert (
        "SST-2/train.tsv, line 1: there is no column 'sentence'; the columns are: text, label."
        in message
    )


def test_malformed_lines(tmp_path):
    put(tmp_path, "SST-2/train.tsv", HEADER + "fine\t1\nbad\n")
    assert "train.tsv, line 3: 1 columns where line 1 has 2" in refused("sst2", tmp_path)
    put(tmp_path, "xnli/dev-de.tsv", "a\tb\tneutral\na b neutral\n")
    assert "dev-de.tsv, line 2: 1 columns where line 1 has 3" in refused("xnli/de", tmp_path)
    put(tmp_path, "CB/train.jsonl", '{"premise": "a"\n')
    assert "train.jsonl, line 1: not JSON" in refused("cb", tmp_path)
    put(tmp_path, "CB/train.jsonl", "[1]\n")
    assert "line 1: not a JSON object" in refused("cb", tmp_path)
    put(tmp_path, "CB/train.jsonl", '{"premise": "a", "label": "neutral"}\n')
    assert "line 1: there is no column 'hypothesis'; the columns are: premise, label." in refused(
        "cb", tmp_path
    )
    put(tmp_path, "sst-train.txt", "3 ||| fine\nbad\n")
    assert "sst-train.txt, line 2: there is no ' ||| '" in refused("sst", tmp_path)
