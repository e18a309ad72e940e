"""A model of every kind: the code on its card runs, and it is asked with the user's own columns."""

import csv
import json
import re
import shlex
import struct
from dataclasses import replace

import pytest
import torch
from small_models import save_checkpoint
from train_toy import said
from transformers import AutoModel

from gradaccord.tasks.registry import KINDS
from gradaccord.train.config_file import check_config
from gradaccord.train.export import export
from gradaccord.train.predict import Predictor
from gradaccord.train.run import train_run

PASSAGE = "The bank rates the film. The fox jumps over the dog."
# A row of each kind in a user's own columns, what each field is called there, and by its own names.
ROWS = {
    "classification": (
        {"review": "the film", "answer_to": "the dog", "stars": "good", "nr": 7},
        {"first": "review", "second": "answer_to", "label": "stars", "id": "nr"},
        {"first": "the film", "second": "the dog"},
    ),
    "regression": (
        {"left": "the film", "right": "the dog", "how": 2},
        {"first": "left", "second": "right", "label": "how"},
        {"first": "the film", "second": "the dog"},
    ),
    "multiple_choice": (
        {"story": "the film", "a": "the fox", "b": "the bank", "right": 1},
        {"premise": "story", "choices": "a,b", "label": "right"},
        {"premise": "the film", "choices": ["the fox", "the bank"]},
    ),
    "multi_answer": (
        {"doc": {"text": PASSAGE}, "asked": "who", "said": "the fox", "true": True, "answer": "x"},
        {"passage": "doc.text", "question": "asked", "answer": "said", "label": "true"},
        {"passage": PASSAGE, "question": "who", "answer": "the fox"},
    ),
    "cloze": (
        {"doc": PASSAGE, "gap": "The @placeholder jumps", "names": ["fox", "dog"], "right": ["fox"]},
        {"passage": "doc", "query": "gap", "entities": "names", "answers": "right"},
        {"passage": PASSAGE, "query": "The @placeholder jumps", "entities": ["fox", "dog"]},
    ),
    "word_in_context": (
        {"one": "the bank", "two": "a bank", "s": 4, "e": 8, "t": 2, "f": 6, "same": "T"},
        {"first": "one", "second": "two", "first_span": "s,e", "second_span": "t,f", "label": "same"},
        {"first": "the bank", "second": "a bank", "first_span": [4, 8], "second_span": [2, 6]},
    ),
    "coreference": (
        {"story": "the fox, it jumps", "noun": [4, 7], "pronoun": [9, 11], "same": "False"},
        {"text": "story", "noun_span": "noun", "pronoun_span": "pronoun", "label": "same"},
        {"text": "the fox, it jumps", "noun_span": [4, 7], "pronoun_span": [9, 11]},
    ),
    "question_answering": (
        {"asked": "who jumps", "doc": PASSAGE, "right": ["fox"]},
        {"question": "asked", "context": "doc", "answers": "right"},
        {"question": "who jumps", "context": PASSAGE},
    ),
    "tagging": (
        {"parts": ["fox", "jumps"], "names": ["B-PER", "O"]},
        {"words": "parts", "tags": "names"},
        "fox jumps",
    ),
    "masked_lm": ({"line": PASSAGE}, {"text": "line"}, PASSAGE),
    "summarization": (
        {"long": PASSAGE, "short": "The fox"}, {"text": "long", "summaries": "short"}, PASSAGE,
    ),
}  # fmt: skip
OPTIONS = {
    "question_answering": {"max_length": 40, "stride": 4},
    "summarization": {"max_summary": 8, "beams": 1},
}
TARGETS = ("label", "id", "answers", "tags", "summaries")


def test_every_kind_is_here():
    assert {*ROWS, "image"} == {*KINDS}


def asked(kind):
    """The row as it is without its label and id, which a user who asks does not have."""
    row, columns, _ = ROWS[kind]
    return {name: cell for name, cell in row.items() if name not in [columns.get(t) for t in TARGETS]}


def trained(folder, model, tasks, **options):
    train = {"steps": 2, "batch_size": 2, "threads": 1, "evaluate_every": 2, "save_every": 2}
    config = check_config({"model": model, "tasks": tasks, "train": train, **options})
    train_run(config, folder / "run")
    return export(folder / "run", folder / "exported")


def own_files(folder, kind):
    row, columns, _ = ROWS[kind]
    file = folder / f"{kind}.jsonl"
    other = {"classification": {"stars": "bad"}}.get(kind, {})
    file.write_text("".join(f"{json.dumps({**row, **(other if n % 2 else {})})}\n" for n in range(4)))
    files = {"train": str(file), "dev": str(file)}
    return {"kind": kind, "files": files, "columns": columns, **OPTIONS.get(kind, {})}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, checkpoint):
    """One model of all kinds that an encoder learns."""
    folder = tmp_path_factory.mktemp("kinds")
    kinds = [kind for kind in ROWS if kind != "summarization"]
    return trained(folder, str(checkpoint), {kind: own_files(folder, kind) for kind in kinds})


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summaries")
    model = save_checkpoint(folder / "t5", "t5", head=True)
    return trained(folder, str(model), {"summarization": own_files(folder, "summarization")})


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    (folder / "mnist").mkdir()
    for part in ("train", "t10k"):
        pixels, labels = bytes(range(256)) * 49, bytes(n % 10 for n in range(16))
        head = struct.pack(">4I", 0x803, 16, 28, 28)
        (folder / f"mnist/{part}-images-idx3-ubyte").write_bytes(head + pixels)
        (folder / f"mnist/{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 16) + labels)
    model = {"name": "conv4", "filters": 4}
    return trained(folder, model, {"image": {"data": "mnist"}}, data_folder=str(folder))


@pytest.fixture(scope="module", params=["encoder", "decoder", "network"])
def exported(request):
    return request.getfixturevalue(request.param)


def test_the_code_of_the_card_runs_for_every_task_of_every_kind(exported, monkeypatch, capsys):
    card = (exported / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(exported)
    exec(code, {})
    tasks = json.loads((exported / "gradaccord.json").read_text())["tasks"]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*tasks]


def test_the_command_of_the_card_runs(exported, capsys):
    commands = re.findall(r"^(gradaccord predict .*)$", (exported / "README.md").read_text(), re.M)
    tasks = json.loads((exported / "gradaccord.json").read_text())["tasks"]
    assert len(commands) == (0 if "image" in tasks else len(tasks))
    for command in commands[:3]:
        given = shlex.split(command.replace("FOLDER", str(exported)))[1:]
        assert "prediction" in json.loads(said(capsys, *given, code=0))


def test_the_card_names_the_encoder_alone_only_where_it_can_be_loaded(exported):
    said = "AutoModel.from_pretrained" in (exported / "README.md").read_text()
    loads = json.loads((exported / "config.json").read_text())["model_type"] in ("bert", "t5")
    assert said == loads
    if said:
        assert isinstance(AutoModel.from_pretrained(exported), torch.nn.Module)


@pytest.mark.parametrize("kind", ROWS)
def test_a_model_is_asked_with_the_columns_it_was_trained_on(kind, request, tmp_path, capsys):
    folder = request.getfixturevalue("decoder" if kind == "summarization" else "encoder")
    predictor = Predictor(folder, kind)
    row, _, plain = ROWS[kind]
    rows = [row, asked(kind)]  # with label and id, and without
    by_field, *by_column = (replace(predictor.example(each), id="") for each in (plain, *rows))
    assert by_column == [by_field, by_field]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    printed = said(capsys, "predict", folder, "--task", kind, "--file", tmp_path / "rows.jsonl", code=0)
    assert [json.loads(line)["input"] for line in printed.splitlines()] == rows


def test_a_table_is_read_by_its_columns_not_as_lines_of_text(encoder, tmp_path, capsys):
    from pyarrow import Table, parquet

    rows = [asked("regression"), {"left": "a fox, a dog", "right": "the bank"}]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    parquet.write_table(Table.from_pylist(rows), tmp_path / "rows.parquet")
    found = {
        ending: said(
            capsys, "predict", encoder, "--task", "regression", "--file", tmp_path / f"rows.{ending}",
            code=0,
        )
        for ending in ("csv", "json", "jsonl", "parquet")
    }  # fmt: skip
    assert len(found["csv"].splitlines()) == 2
    assert len(set(found.values())) == 1


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        ("classification", '{"review": "a"}', "no column 'answer_to'"),
        ("classification", '{"review": "a", "answer_to": null}', "'answer_to' is missing"),
        ("classification", "a text", "give JSON with the fields review, answer_to."),
        ("multiple_choice", "a text", "give JSON with the fields story, a, b."),
        ("question_answering", '{"asked": "who"}', "no column 'doc'"),
        ("masked_lm", '{"line": null}', "The input, line 1: 'line' is missing"),
    ],
)
def test_what_a_question_lacks_is_named_and_label_and_id_are_not_asked_for(
    encoder, capsys, kind, given, sentence
):
    wrong = said(capsys, "predict", encoder, "--task", kind, given)
    assert sentence in wrong
    assert not re.search(r"\b(label|id|answers|tags|stars|nr)\b", wrong)


def test_files_that_no_question_can_be_read_from_are_refused(encoder, tmp_path, capsys):
    (tmp_path / "in.conll").write_text("fox\tB-PER\n\n")
    wrong = said(capsys, "predict", encoder, "--task", "tagging", "--file", tmp_path / "in.conll")
    assert "in.conll" in wrong
    assert "a text or JSON object per line" in wrong


def test_an_image_is_asked_for_in_python(network, capsys):
    assert "Picture" in said(capsys, "predict", network, "--task", "image", "a.png")


@pytest.mark.parametrize("ending", ["conll", "jsonl"])
def test_a_labelled_file_is_read_as_the_training_files_were(encoder, tmp_path, ending):
    """`iob: repair` goes for the files of `evaluate`, too."""
    texts = {
        "conll": "the\tO\nfox\tI-PER\n\n",
        "jsonl": json.dumps({"words": ["the", "fox"], "tags": ["O", "I-PER"]}) + "\n",
    }
    (tmp_path / f"x.{ending}").write_text(texts[ending])
    predictor = Predictor(encoder, "tagging")
    predictor.columns = {}
    with pytest.raises(ValueError, match="cannot follow"):
        predictor.labelled(tmp_path / f"x.{ending}")
    predictor.iob = "repair"
    (example,) = predictor.labelled(tmp_path / f"x.{ending}")
    assert example.tags[1].startswith("B-")
