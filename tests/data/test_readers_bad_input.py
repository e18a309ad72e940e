"""Files and names that are wrong: one sentence with the file and the line, and nothing else."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from gradaccord import data
from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Question, Tagged, Text
from gradaccord.data.splits import cut

HEADER = "sentence\tlabel\n"
FOR_EVER = ["context 1", "context 7", "context 30", "context 38"]


def put(folder: Path, path: str, content: str | bytes) -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content if isinstance(content, bytes) else content.encode())


def refused(name: str, folder: Path, **options: object) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        data.load(name, folder, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


def test_missing_column(tmp_path):
    put(tmp_path, "SST-2/train.tsv", "text\tlabel\nfine\t1\n")
    message = refused("sst2", tmp_path)
    assert (
        "SST-2/train.tsv, line 1: there is no column 'sentence'; the columns are: text, label."
        in message
    )


def test_unknown_label_and_label_out_of_range(tmp_path):
    put(tmp_path, "SST-2/train.tsv", HEADER + "fine\t1\nbad\tawful\n")
    assert "train.tsv, line 3: the label 'awful' is not one of 0..1" in refused("sst2", tmp_path)
    put(tmp_path, "SST-2/train.tsv", HEADER + "fine\t2\n")
    assert "train.tsv, line 2: the label '2' is not one of 0..1 or negative, positive." in refused(
        "sst2", tmp_path
    )
    put(
        tmp_path,
        "COPA/train.jsonl",
        '{"premise": "", "question": "", "choice1": "", "choice2": "", "label": 2}',
    )
    assert "train.jsonl, line 1: the label 2 is not one of 0..1" in refused("copa", tmp_path)


def test_a_value_that_is_no_number(tmp_path):
    put(tmp_path, "STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\tnan\n")
    assert "train.tsv, line 2: the value 'nan' is not a finite number." in refused("sts-b", tmp_path)
    put(tmp_path, "STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\tfour\n")
    assert "the value 'four' is not a number." in refused("sts-b", tmp_path)


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


def test_broken_truncated_and_empty_files(tmp_path):
    whole = gzip.compress((HEADER + "fine day\t1\n" * 50).encode())
    put(tmp_path, "SST-2/train.tsv.gz", whole[: len(whole) // 2])
    assert "train.tsv.gz is a broken gzip file" in refused("sst2", tmp_path)
    listed = {found.name: found for found in data.find(tmp_path)}["sst2"]
    assert "broken gzip" in listed.problem
    assert not listed.counts
    put(tmp_path, "SST-2/train.tsv.gz", whole[:30] + b"\0\0\0" + whole[33:])
    assert "broken gzip" in refused("sst2", tmp_path)
    put(tmp_path, "SST-2/train.tsv.gz", gzip.compress(b""))
    assert "train.tsv.gz is empty" in refused("sst2", tmp_path)
    put(tmp_path, "xquad.de.json", "\n")
    assert "xquad.de.json is empty" in refused("xquad/de", tmp_path)


def test_a_member_of_an_archive_that_is_broken(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("SST-2/train.tsv", HEADER + "x" * 100 + "\t1\n")
    content = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(content.replace(b"x" * 100, b"y" * 100))
    assert "SST-2/train.tsv in" in refused("sst2", tmp_path)


def test_wrong_encoding_names_the_line(tmp_path):
    put(tmp_path, "SST-2/train.tsv", (HEADER + "fine\t1\ncafé\t1\n").encode("latin-1"))
    assert "train.tsv, line 3: the byte 0xe9 is not UTF-8" in refused("sst2", tmp_path)


def test_tags_that_cannot_be(tmp_path):
    put(tmp_path, "wikiann/de/train.conll", "in\tO\nUlm\tI-LOC\n\n")
    message = refused("wikiann/de", tmp_path, iob="strict")
    assert "train.conll, line 2: the tag 'I-LOC' cannot follow 'O'" in message
    put(tmp_path, "wikiann/de/train.conll", "A\tB-PER\nUlm\tI-LOC\n\n")
    assert "line 2: the tag 'I-LOC' cannot follow 'B-PER'" in refused(
        "wikiann/de", tmp_path, iob="strict"
    )
    repaired = data.load("wikiann/de", tmp_path)
    assert repaired.split("train")[0].tags == ("B-PER", "B-LOC")
    assert sum(repaired.notes.values()) == 1
    put(tmp_path, "wikiann/de/train.conll", "A\tB-PER\n\nUlm\tB-GPE\n\n")
    assert "line 3: the tag 'B-GPE' is not O, or B- or I- with one of PER, LOC, ORG." in refused(
        "wikiann/de", tmp_path
    )
    put(tmp_path, "wikiann/de/train.conll", "A\tB-PER\nUlm\n\n")
    assert "line 2: 1 columns where 2 are expected" in refused("wikiann/de", tmp_path)
    assert "`iob` is 'mend'" in refused("wikiann/de", tmp_path, iob="mend")


def test_answers_that_are_not_where_the_file_says(tmp_path):
    answer = {"text": "Ann", "answer_start": 4}
    qas = [{"id": "q7", "question": "Who?", "answers": [answer]}]
    content = {"data": [{"paragraphs": [{"context": "Now Ann won.", "qas": qas}]}]}
    put(tmp_path, "xquad.de.json", json.dumps(content))
    assert data.load("xquad/de", tmp_path).split("test")[0].starts == (4,)
    answer["answer_start"] = 3
    put(tmp_path, "xquad.de.json", json.dumps(content))
    message = refused("xquad/de", tmp_path)
    assert "xquad.de.json, question 'q7': the answer 'Ann' is not at character 3" in message
    put(tmp_path, "xquad.de.json", json.dumps({"data": [{"paragraphs": [{"qas": []}]}]}))
    assert "a paragraph has no 'context'" in refused("xquad/de", tmp_path)
    put(tmp_path, "xquad.de.json", '{"data":\n [}')
    assert "xquad.de.json, line 2: not JSON" in refused("xquad/de", tmp_path)


def test_summaries_that_do_not_correspond(tmp_path):
    put(tmp_path, "train.article.txt", "a\nb\n")
    assert "needs train.title.txt beside it" in refused("gigaword", tmp_path)
    put(tmp_path, "train.title.txt", "a\n")
    assert "train.title.txt has 1 lines where" in refused("gigaword", tmp_path)


def test_names_folders_languages_and_splits_that_do_not_exist(tmp_path):
    put(tmp_path, "xnli/dev-de.tsv", "a\tb\tneutral\n")
    put(tmp_path, "xnli/dev-sw.tsv", "a\tb\tneutral\n")
    put(tmp_path, "SST-2/train.tsv", HEADER + "fine\t1\n")
    assert refused("squad3", tmp_path).startswith("There is no data set 'squad3': did you mean 'squad")
    assert "did you mean 'masakhaner2'?" in refused("masakaner/swa", tmp_path)
    assert "see `gradaccord list data`" in refused("zzzzzzzz", tmp_path)
    assert "holds no file of the set 'cola'" in refused("cola", tmp_path)
    assert "choose one of de, sw, as in 'xnli/de'" in refused("xnli", tmp_path)
    assert "no language 'fr' here" in refused("xnli/fr", tmp_path)
    assert "leave 'fr' out" in refused("sst2/fr", tmp_path)
    assert "give one" in refused("xnli/de", tmp_path, language="sw")
    assert "`xnli/de` has no split 'train': it has dev." in refused(
        "xnli/de", tmp_path, splits=["train"]
    )
    assert "few-shot set" in refused("omniglot", tmp_path)
    with pytest.raises(FileNotFoundError, match="No such folder"):
        data.find(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="No such folder"):
        data.load("sst2", tmp_path / "nowhere")


# --- cuts -------------------------------------------------------------------------------------------


def questions(contexts: int, each: int = 3) -> list[Question]:
    return [
        Question("?", f"context {c}", ("context",), (0,), id=f"{c}-{q}")
        for c in range(contexts)
        for q in range(each)
    ]


def test_a_cut_keeps_contexts_whole_and_does_not_depend_on_the_run():
    dataset = Dataset("qa", "question_answering", {"dev": questions(400)})
    parts = cut(dataset, {"train": 0.5, "dev": 0.3, "test": 0.2}).splits
    contexts = [{e.context for e in part} for part in parts.values()]
    assert not contexts[0] & contexts[1]
    assert not contexts[1] & contexts[2]
    assert sum(map(len, parts.values())) == 1200
    for part, share in zip(parts.values(), (0.5, 0.3, 0.2), strict=True):
        assert len(part) == pytest.approx(1200 * share, rel=0.25)
    assert cut(dataset, 0.2).splits == cut(dataset, 0.2).splits
    assert cut(dataset, 0.2).splits != cut(dataset, 0.2, seed=1).splits
    chosen = dict.fromkeys(e.context for e in cut(dataset, 0.2).splits["dev"])
    assert [*chosen][:4] == FOR_EVER  # a figure in a paper depends on it


def test_a_cut_that_cannot_be():
    dataset = Dataset("qa", "question_answering", {"train": questions(50), "dev": questions(5)})
    for shares, message in (
        (0.1, "into 'dev', which `qa` has already"),
        ({"train": 0.9, "test": 0.2}, "sum to 1.1"),
        ({"train": 0.9, "held": 0.1}, "the split 'held'"),
        ({"train": 1.0, "test": 0.0}, "`cut` is 0 for 'test'"),
        ({"train": 1.0, "test": -0.1}, "`cut` is -0.1 for 'test'"),
    ):
        with pytest.raises(ValueError, match=message):
            cut(dataset, shares)
    with pytest.raises(ValueError, match="leaves no example for 'dev' out of 1"):
        cut(Dataset("one", "tagging", {"train": [Tagged(("a",), ("O",))]}), 0.0001)
    with pytest.raises(ValueError, match="has no split to cut"):
        cut(Dataset("none", "tagging", {}), 0.5)


def test_a_split_without_labels_gives_way_to_a_cut():
    rows = [Text(f"text {n}", None, n % 2, str(n)) for n in range(100)]
    hidden = [Text("hidden", None, None, "h")]
    dataset = cut(Dataset("t", "classification", {"train": rows, "dev": hidden, "test": hidden}), 0.3)
    assert all(e.label is not None for e in dataset.splits["dev"])
    assert dataset.splits["test"] == hidden
