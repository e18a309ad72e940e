"""Own files and sets of Hugging Face: every format, every kind, and what is wrong with them."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path

import pytest

from gradaccord import data
from gradaccord.data.examples import (
    EXAMPLES,
    Candidate,
    Choices,
    Cloze,
    Coreference,
    Document,
    Line,
    Question,
    Tagged,
    Text,
    WordPair,
)
from gradaccord.data.files import hub

ROWS = [
    {"review": "so, so", "stars": "bad", "key": "a"},
    {"review": 'said "wow"', "stars": "good", "key": "b"},
]
EXPECTED = [Text("so, so", None, 0, "a"), Text('said "wow"', None, 1, "b")]


def write(path: Path, rows: list[dict], quote: bool = True) -> Path:
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    names = [*rows[0]]
    if ending == "jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    elif ending == "json":
        text = json.dumps(rows, indent=1)
    elif ending == "tsv":
        text = "\n".join("\t".join(map(str, row)) for row in [names, *(r.values() for r in rows)])
    elif ending == "csv":
        quoted = [[str(cell).replace('"', '""') for cell in row.values()] for row in rows]
        text = "\r\n".join([",".join(names), *(",".join(f'"{c}"' for c in row) for row in quoted)])
    else:
        from pyarrow import Table, parquet

        parquet.write_table(Table.from_pylist(rows), path)
        return path
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "a.jsonl.gz"]
)
def test_every_format_gives_the_same_examples(tmp_path, name):
    path = write(tmp_path / name, ROWS)
    columns = {"first": "review", "label": "stars", "id": "key"}
    dataset = data.read("classification", {"train": path}, columns, name="mine")
    assert dataset.splits == {"train": EXPECTED}
    assert (dataset.name, dataset.labels) == ("mine", ("bad", "good"))
    swapped = data.read("classification", {"train": str(path)}, columns, labels=["good", "bad"])
    assert [e.label for e in swapped.split("train")] == [1, 0]


def test_several_files_usual_names_and_pairs(tmp_path):
    one = write(tmp_path / "1.jsonl", [{"sentence1": "a", "sentence2": "b", "label": 1}])
    two = write(tmp_path / "2.jsonl", [{"sentence1": "c", "sentence2": "d", "label": 0}])
    hidden = write(tmp_path / "3.jsonl", [{"sentence1": "e", "sentence2": "f"}])
    pairs = data.read("classification", {"train": [one, two], "validation": two, "test": hidden})
    assert pairs.counts == {"train": 2, "dev": 1, "test": 1}
    assert pairs.labels == ("0", "1")
    assert pairs.options == {"pair": "cross"}
    assert pairs.split("test")[0].label is None
    values = data.read("regression", {"train": [one, two]})
    assert [e.label for e in values.split("train")] == [1.0, 0.0]
    assert values.labels == ()


def test_a_table_without_header(tmp_path):
    (tmp_path / "a.tsv").write_text("x\t1\ty\nz\t0\tw\n")
    dataset = data.read(
        "classification",
        {"train": tmp_path / "a.tsv"},
        {"first": "0", "second": "2", "label": "1"},
        header=False,
    )
    assert dataset.split("train")[0] == Text("x", "y", 1, "train-1")


KIND_ROWS = {
    "multiple_choice": (
        {"premise": "p", "question": "cause", "choice1": "a", "choice2": "b", "label": 1, "id": "i"},
        {},
        Choices("p", "cause", ("a", "b"), 1, "i"),
    ),
    "multi_answer": (
        {"passage": "p", "question": "q", "answer": "a", "label": True, "group": "g", "id": "i"},
        {},
        Candidate("p", "q", "a", 1, "g", "i"),
    ),
    "cloze": (
        {
            "passage": {"text": "p"},
            "query": "@placeholder x",
            "entities": ["A", "B"],
            "answers": ["A"],
            "id": "i",
        },
        {"passage": "passage.text"},
        Cloze("p", "@placeholder x", ("A", "B"), ("A",), "i"),
    ),
    "word_in_context": (
        {
            "first": "a bank",
            "second": "banks",
            "s": 2,
            "e": 6,
            "second_span": [0, 5],
            "label": 0,
            "id": "i",
        },
        {"first_span": "s,e"},
        WordPair("a bank", "banks", (2, 6), (0, 5), 0, "i"),
    ),
    "coreference": (
        {"text": "Ann, she", "noun_span": [0, 3], "pronoun_span": [5, 8], "label": 1, "id": "i"},
        {},
        Coreference("Ann, she", (0, 3), (5, 8), 1, "i"),
    ),
    "question_answering": (
        {
            "question": "q",
            "context": "an Ann",
            "answers": {"text": ["Ann"], "answer_start": [3]},
            "id": "i",
        },
        {},
        Question("q", "an Ann", ("Ann",), (3,), "en", "i"),
    ),
    "tagging": (
        {"tokens": ["in", "Ulm"], "ner_tags": ["O", "B-LOC"], "id": "i"},
        {},
        Tagged(("in", "Ulm"), ("O", "B-LOC"), "i"),
    ),
    "summarization": (
        {"document": "long", "summary": "short", "id": "i"},
        {},
        Document("long", ("short",), "i"),
    ),
    "masked_lm": ({"text": "line", "id": "i"}, {}, Line("line", "i")),
}


@pytest.mark.parametrize("kind", KIND_ROWS)
def test_every_kind_from_json_lines(tmp_path, kind):
    row, columns, expected = KIND_ROWS[kind]
    path = write(tmp_path / "a.jsonl", [row])
    assert data.read(kind, {"train": path}, columns).split("train") == [expected]


def test_every_kind_of_task_but_images_can_be_read():
    from gradaccord.tasks import KINDS

    assert {*KINDS} - {*EXAMPLES} == {"image"}
    assert {*EXAMPLES} - {*KIND_ROWS} == {"classification", "regression"}


def test_answers_in_other_shapes(tmp_path):
    for answers, more in (
        ("Ann", {}),
        (["Ann"], {}),
        (["Ann"], {"starts": [3]}),
        ("Ann", {"answer_start": 3}),
        ([{"text": "Ann", "answer_start": 3}], {}),
        ('{"text": ["Ann"], "answer_start": [3]}', {}),
    ):
        path = write(
            tmp_path / "a.jsonl", [{"question": "q", "context": "an Ann", "answers": answers, **more}]
        )
        found = data.read("question_answering", {"train": path}).split("train")[0]
        assert (found.answers, found.starts) == (("Ann",), (3,))
    squad = {
        "data": [
            {
                "paragraphs": [
                    {"context": "an Ann", "qas": [{"id": "i", "question": "q", "answers": []}]}
                ]
            }
        ]
    }
    (tmp_path / "s.json").write_text(json.dumps(squad))
    assert data.read("question_answering", {"dev": tmp_path / "s.json"}).counts == {"dev": 1}


def test_conll_files(tmp_path):
    (tmp_path / "a.conll").write_text("1 in O\n2 Ulm B-LOC\n\n1 # O\n")
    dataset = data.read("tagging", {"train": tmp_path / "a.conll"}, {"words": "1", "tags": "2"})
    assert dataset.split("train")[0].words == ("in", "Ulm")
    assert dataset.split("train")[1].words == ("#",)
    assert dataset.labels == ("LOC",)
    (tmp_path / "b.txt").write_text("Ulm\tI-LOC\n")
    with pytest.raises(ValueError, match=r"b\.txt, line 1: the tag 'I-LOC' cannot follow 'O'"):
        data.read("tagging", {"train": tmp_path / "b.txt"})
    mended = data.read("tagging", {"train": tmp_path / "b.txt"}, iob="repair")
    assert mended.split("train")[0].tags == ("B-LOC",)
    assert sum(mended.notes.values()) == 1


def test_plain_lines(tmp_path):
    (tmp_path / "a.txt").write_text("eins\n\nzwei\n")
    assert [e.text for e in data.read("masked_lm", {"test": tmp_path / "a.txt"}).split("test")] == [
        "eins",
        "zwei",
    ]


JSONL = '{"sentence": "a", "label": "x"}\n'
BAD = {
    "unknown kind": (("clasification", "a.jsonl", JSONL), {}, "did you mean 'classification'?"),
    "no such field": (
        ("classification", "a.jsonl", JSONL),
        {"columns": {"text": "sentence"}},
        "field 'text'",
    ),
    "missing column": (
        ("classification", "a.jsonl", JSONL),
        {"columns": {"first": "review"}},
        "a.jsonl, line 1: there is no column 'review'; the columns are: sentence, label.",
    ),
    "nothing to read": (("classification", "a.jsonl", '{"x": 1}\n'), {}, "no column 'first'"),
    "no label in train": (
        ("classification", "a.jsonl", '{"sentence": "a"}\n'),
        {},
        "no column 'label'",
    ),
    "empty label": (
        ("classification", "a.csv", "sentence,label\na,x\nb,\n"),
        {},
        "line 3: the label is missing",
    ),
    "unknown label": (
        ("classification", "a.jsonl", JSONL),
        {"labels": ["y", "z"]},
        "a.jsonl, line 1: the label 'x' is not one of 0..1 or y, z.",
    ),
    "label out of range": (
        ("classification", "a.csv", "sentence,label\na,2\n"),
        {"labels": ["y", "z"]},
        "a.csv, line 2: the label '2' is not one of 0..1",
    ),
    "choice out of range": (
        ("multiple_choice", "a.jsonl", '{"premise": "p", "choices": ["a", "b"], "label": 2}\n'),
        {},
        "line 1: the label 2 is not one of 0..1",
    ),
    "not a number": (
        ("regression", "a.csv", "sentence,label\na,high\n"),
        {},
        "the value 'high' is not a number",
    ),
    "ragged": (
        ("classification", "a.csv", "sentence,label\na\n"),
        {},
        "a.csv, line 2: 1 columns where line 1 has 2",
    ),
    "quotes": (("classification", "a.csv", 'sentence,label\n"a"b,1\n'), {}, "a.csv, line 2: not CSV"),
    "twice": (("classification", "a.csv", "label,label\na,1\n"), {}, "two columns have the same name"),
    "format": (("classification", "a.xls", "x"), {}, "does not end in a known format"),
    "parquet": (("classification", "a.parquet", "PAR1 no"), {}, "not a whole parquet file"),
    "json": (("classification", "a.json", '{"a": 1}'), {}, "not a JSON list of objects"),
    "encoding": (
        ("classification", "a.csv", "sentence,label\né,1\n".encode("latin-1")),
        {},
        "line 2: the byte 0xe9",
    ),
    "empty": (("classification", "a.csv", ""), {}, "is empty"),
    "header alone": (("classification", "a.csv", "sentence,label\n"), {}, "holds no row"),
    "answer": (
        ("question_answering", "a.jsonl", '{"question": "q", "context": "c", "answers": "Ann"}\n'),
        {},
        "line 1, question 'train-1': the answer 'Ann' is not at character -1",
    ),
    "span": (
        (
            "coreference",
            "a.jsonl",
            '{"text": "t", "noun_span": [0, 9], "pronoun_span": [0, 1], "label": 1}\n',
        ),
        {},
        "line 1: [0, 9] is not a start and an end",
    ),
    "tags": (
        ("tagging", "a.jsonl", '{"words": ["a"], "tags": ["O", "O"]}\n'),
        {},
        "line 1: 1 words and 2 tags",
    ),
    "iob": (
        ("tagging", "a.jsonl", '{"words": ["a"], "tags": ["I-PER"]}\n'),
        {},
        "line 1: the tag 'I-PER' cannot follow 'O'",
    ),
    "entity type": (
        ("tagging", "a.jsonl", '{"words": ["a"], "tags": ["B-GPE"]}\n'),
        {"labels": ["PER"]},
        "line 1: the tag 'B-GPE' is not O, or B- or I- with one of PER",
    ),
    "conll columns": (
        ("tagging", "a.conll", "a\tO\n"),
        {"columns": {"words": "form"}},
        "are numbers, from 0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, case):
    (kind, name, content), options, message = BAD[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        data.read(kind, {"train": path}, **options)
    assert "\n" not in str(caught.value)


def test_wrong_arguments(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"sentence": "a", "label": 0}])
    with pytest.raises(ValueError, match="the split 'held'"):
        data.read("classification", {"held": path})
    with pytest.raises(ValueError, match="`files` is empty"):
        data.read("classification", {})
    with pytest.raises(FileNotFoundError, match="No such file"):
        data.read("classification", {"train": tmp_path / "none.csv"})
    with pytest.raises(ValueError, match="`format` is 'xml'"):
        data.read("classification", {"train": path}, format="xml")


# --- Hugging Face datasets --------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch, tmp_path):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_folder_of_files_as_hugging_face_reads_it(tmp_path, offline, ending):
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [{"premise": f"p{n}", "hypothesis": f"h{n}", "label": n % 2, "idx": n} for n in range(5)]
    write(folder / f"train.{ending}", rows)
    write(folder / f"validation.{ending}", rows[:2])
    dataset = hub.load(folder, cache=offline)
    assert dataset.kind == "classification"
    assert dataset.counts == {"train": 5, "dev": 2}
    assert dataset.split("train")[1] == Text("p1", "h1", 1, "1")
    assert dataset.options == {"pair": "cross"}
    named = hub.load(folder, cache=offline, labels=["yes", "no"], splits=["dev"])
    assert (named.labels, [*named.splits]) == (("yes", "no"), ["dev"])


def test_what_save_to_disk_wrote_with_class_names_and_tags(tmp_path, offline):
    import datasets

    label = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    part = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, -1]}, features=label)
    datasets.DatasetDict({"train": part.select([0]), "test": part}).save_to_disk(tmp_path / "texts")
    texts = data.load(f"hub:{tmp_path / 'texts'}")
    assert texts.labels == ("no", "yes")
    assert [e.label for e in texts.split("test")] == [1, None]

    names = datasets.ClassLabel(names=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    tags = datasets.Features(
        {"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": datasets.Sequence(names)}
    )
    part = datasets.Dataset.from_dict(
        {"tokens": [["Ann", "in", "Ulm"]], "ner_tags": [[1, 0, 3]]}, features=tags
    )
    part.save_to_disk(tmp_path / "tags")
    tagged = data.load(f"hub:{tmp_path / 'tags'}")
    assert (tagged.kind, tagged.labels) == ("tagging", ("PER", "LOC"))
    assert tagged.split("train")[0].tags == ("B-PER", "O", "B-LOC")

    answers = {"text": ["Ann"], "answer_start": [3]}
    part = datasets.Dataset.from_list(
        [{"id": "i", "question": "q", "context": "an Ann", "answers": answers}]
    )
    datasets.DatasetDict({"validation": part}).save_to_disk(tmp_path / "questions")
    assert data.load(f"hub:{tmp_path / 'questions'}").split("dev")[0].starts == (3,)


def test_a_set_that_cannot_be_had_is_one_sentence(tmp_path, offline):
    with pytest.raises(
        ValueError, match=r"`datasets` could not load 'nobody/nothing-at-all': .+\.$"
    ) as caught:
        hub.load("nobody/nothing-at-all", cache=offline)
    assert "\n" not in str(caught.value)
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder / "train.jsonl", [{"x": 1}])
    with pytest.raises(ValueError, match="give `kind`"):
        hub.load(folder, cache=offline)


# --- the listing ------------------------------------------------------------------------------------


def test_the_table_of_found_sets(tmp_path, monkeypatch):
    from rich.console import Console

    from gradaccord.cli.list_data import list_data

    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2/train.tsv").write_text("sentence\tlabel\n" + "fine\t1\n" * 1234)
    (tmp_path / "SST-2/dev.tsv.gz").write_bytes(b"\x1f\x8b broken")
    console = Console(width=120, record=True, file=io.StringIO())
    found = list_data(tmp_path, console)
    shown = console.export_text()
    assert "sst2" in [each.name for each in found]
    assert re.search(r"sst2 +1,234 +classification +en +unreadable, see below", shown)
    assert "territory, city" in shown  # the classes of the embedded sets
    assert "broken gzip file" in shown
    for width in (80, 40):
        narrow = Console(width=width, record=True, file=io.StringIO())
        list_data(tmp_path, narrow)
        assert re.search(r"^sst2 +1,234 +classification", narrow.export_text(), re.MULTILINE)
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    list_data(console=console)
    assert "GRADACCORD_DATA" in console.export_text()


def test_classes_that_are_numbers_are_read_by_name(tmp_path: Path) -> None:
    stars = [{"text": f"review {n}", "label": n} for n in (1, 5, 3, 2, 4)]
    for ending in ("csv", "jsonl"):
        read = data.read("classification", {"train": write(tmp_path / f"stars.{ending}", stars)})
        assert read.labels == ("1", "2", "3", "4", "5")
        assert [example.label for example in read.split("train")] == [0, 4, 2, 1, 3]
    file = write(tmp_path / "none.jsonl", [{"text": "a", "label": 0}])
    with pytest.raises(ValueError, match=r"line 1: the label '0' is not one of 1, 2\.$"):
        data.read("classification", {"train": file}, labels=["1", "2"])


def test_class_numbers_of_hugging_face_are_places_even_where_names_are_numbers(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["1", "2", "3"])}
    )
    rows = [{"text": "a", "label": 0}, {"text": "b", "label": 2}, {"text": "c", "label": -1}]
    part = datasets.Dataset.from_list(rows, features=features)
    datasets.DatasetDict({"validation": part}).save_to_disk(str(tmp_path / "stars"))
    read = data.load(f"hub:{tmp_path / 'stars'}")
    assert read.labels == ("1", "2", "3")
    assert [example.label for example in read.split("dev")] == [0, 2, None]
