"""Every option of the schema on every kind of task: it is used, or refused by its name."""

from __future__ import annotations

import copy
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from small_models import save_checkpoint

from gradaccord import data
from gradaccord.data.dataset import Dataset
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
from gradaccord.data.images.labelled import Picture
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.runs.config_files import ConfigError
from gradaccord.tasks import KINDS, build
from gradaccord.tasks.transfer import task_by_head
from gradaccord.train.config_file import check_config

# A value of every option that any kind has.
VALUES: dict[str, Any] = {
    "labels": ["F", "T"], "pair": "separate", "head": "hidden", "max_length": 77, "dropout": 0.3,
    "average": "binary", "low": 1.0, "high": 2.0, "bounded": True, "symmetric": True,
    "language": "it", "cause": "why?", "effect": "so?", "stride": 7, "max_answer_length": 9,
    "n_best": 3, "unanswerable": True, "null_threshold": 0.5, "normalise": "mlqa", "split": "fine",
    "decoding": "constrained", "prefix": "sum: ", "max_summary": 5, "beams": 2,
    "length_penalty": 0.5, "no_repeat": 3, "label_smoothing": 0.1, "stemming": False,
    "references": "mean", "words": "spaced", "mean": [0.1], "std": [0.2], "crop": 2, "flip": True,
    "size": 14, "share": 0.2, "seed": 3, "metric": "of the kind",
}  # fmt: skip


def options_of(kind: str) -> list[str]:
    return [field.name for field in fields(KINDS[kind])]  # type: ignore[arg-type]


def metrics_of(kind: str) -> tuple[str, ...]:
    """The default first."""
    first = KINDS[kind].metric
    return (first, *(one for one in get_args(get_type_hints(KINDS[kind])["metric"]) if one != first))


def test_every_option_is_here() -> None:
    assert {*VALUES} == {option for kind in KINDS for option in options_of(kind)}


@pytest.mark.parametrize("option", VALUES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_option_that_a_kind_does_not_use_is_refused_by_name(kind: str, option: str) -> None:
    value = metrics_of(kind)[-1] if option == "metric" else VALUES[option]
    source: dict[str, Any] = {"files": {"train": "a.jsonl"}, "kind": kind}
    if kind == "image":
        source = {"data": "mnist"}
    own = option in options_of(kind)
    if own and (kind, option) != ("image", "labels"):  # whose sets bring their own
        config = check_config({"tasks": {"t": {**source, option: value}}})
        assert {**config.tasks["t"].options, "labels": config.tasks["t"].labels}[option] == value
        needed = [f.name for f in fields(KINDS[kind]) if f.default is MISSING]  # type: ignore[arg-type]
        task = build(kind, **{**{name: VALUES[name] for name in needed}, option: value})
        assert getattr(task, option) == (tuple(value) if isinstance(value, list) else value)
        return
    with pytest.raises(ConfigError, match=rf"\b{option}\b") as caught:
        check_config({"tasks": {"t": {**source, option: value}}})
    assert "'t'" in str(caught.value) or "`tasks.t`" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", sorted({*EXAMPLES} - {"classification", "tagging"}))
def test_labels_of_a_kind_without_classes_are_refused_in_python_too(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=rf"`labels` .* a {kind} task"):
        data.read(kind, {"train": tmp_path / "a.jsonl"}, labels=["F", "T"])


def test_yes_or_no_as_files_write_it(tmp_path: Path) -> None:
    row = '{"text": "Ann, she", "noun_span": [0, 3], "pronoun_span": [5, 8], "label": %s}\n'
    written = ['"F"', '"T"', '"False"', '"True"', '"false"', '"true"', "0", "1", "false", "true"]
    (tmp_path / "a.jsonl").write_text("".join(row % label for label in written))
    read = data.read("coreference", {"train": tmp_path / "a.jsonl"}).split("train")
    assert [example.label for example in read] == [0, 1] * 5


TRAINED = {"files": {"train": "a.csv"}, "kind": "classification"}
UNSEEN = {**TRAINED, "evaluate_only": True}


@pytest.mark.parametrize(
    ("tasks", "option"),
    [
        ({"t": {"data": "sst", "columns": {"first": "text"}}}, "columns"),
        ({"t": {"data": "sst", "labels": ["a", "b"]}}, "labels"),
        ({"a": TRAINED, "t": {**TRAINED, "source": "a"}}, "source"),
        ({"a": TRAINED, "t": {**UNSEEN, "shared_head": "x"}}, "shared_head"),
        ({"a": TRAINED, "t": {**UNSEEN, "batch_size": 4}}, "batch_size"),
        ({"a": TRAINED, "t": {**UNSEEN, "clusters": 3}}, "clusters"),
        ({"t": {"data": "mnist", "clusters": 3}}, "clusters"),
    ],
)
def test_an_option_that_would_do_nothing_here_is_refused(tasks: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigError, match=rf"`{option}`") as caught:
        check_config({"tasks": tasks})
    assert "'t'" in str(caught.value) or "`tasks.t`" in str(caught.value)


def test_options_of_an_unseen_task_are_used_or_belong_to_the_head() -> None:
    source = build("classification", labels=["a", "b"], max_length=64)
    unseen = Dataset("unseen", "classification", {}, ("a", "b"))
    other = task_by_head("unseen", unseen, "seen", source, {"max_length": 16})
    assert (other.max_length, source.max_length) == (16, 64)
    task_by_head("unseen", unseen, "seen", source, {"head": "linear"})  # what it is anyway
    with pytest.raises(
        ValueError, match="'unseen' is evaluated with the head of 'seen': leave `head` out"
    ):
        task_by_head("unseen", unseen, "seen", source, {"head": "hidden"})


def test_columns_that_a_conll_file_cannot_have_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ulm\tB-LOC\n\n")
    with pytest.raises(ValueError, match="`columns` names 'id'.*words and tags"):
        data.read("tagging", {"train": tmp_path / "a.conll"}, {"id": "0"})


LONG = "The quick brown fox jumps over the lazy dog. A good film, the bank raised its rates. " * 2
# Of each kind: options that it needs, examples, and predictions that are partly right.
CASES: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "classification": (
        {"labels": ["a", "b"], "pair": "cross"},
        [Text(LONG, "a dog", n % 2, str(n)) for n in range(4)],
        ["a", "b", "b", "b"],
    ),
    "regression": (
        {}, [Text(LONG, "a dog", 1 + n % 2, str(n)) for n in range(4)], [1.0, 2.0, 2.0, 3.0],
    ),
    "multiple_choice": (
        {}, [Choices(LONG, q, ("a fox", "a dog"), 0, q) for q in ("cause", "effect")], [0, 1],
    ),
    "multi_answer": (
        {}, [Candidate(LONG, "who", "fox", n, "g", str(n)) for n in range(2)], [True, True],
    ),
    "cloze": ({}, [Cloze(LONG, "@placeholder", ("fox", "dog"), ("fox",), "i")], ["fox"]),
    "word_in_context": ({}, [WordPair(LONG, "the fox", (0, 3), (4, 7), 1, "i")], [True]),
    "coreference": ({}, [Coreference(LONG, (4, 9), (0, 3), 1, "i")], [True]),
    "question_answering": (
        {"max_length": 32, "stride": 4},
        [
            Question("wer", "der Hund; bestFilm2021" + LONG, ("der Hund",), (0,), "de", "1"),
            Question("who", LONG, ("quick brown fox jumps",), (4,), "en", "2"),
        ],
        ["Hund", "brown"],
    ),
    "tagging": (
        {"labels": ["PER", "LOC"]},
        [Tagged(tuple(LONG.split()), ("B-PER", *["O"] * (len(LONG.split()) - 1)), "i")],
        [["B-PER", *["O"] * (len(LONG.split()) - 1)]],
    ),
    "summarization": (
        {"max_summary": 12, "beams": 2},
        [Document(LONG, ("Die Füße, the dogs", "a film"), "i")],
        ["die füße. The dog"],
    ),
    "image": (
        {"labels": ["a", "b"]},
        [Picture(torch.arange(784, dtype=torch.uint8).view(1, 28, 28), n) for n in range(2)],
        ["a", "a"],
    ),
    "masked_lm": ({}, [Line(LONG, str(n)) for n in range(3)], [0, 0, 0]),
}  # fmt: skip
# Where another option must be on for one to mean something, and values that differ from these cases.
WITH = {"null_threshold": {"unanswerable": True}}
OTHER = {
    ("classification", "labels"): ["b", "a"], ("tagging", "labels"): ["LOC", "PER"],
    **{(kind, "metric"): metrics_of(kind)[-1] for kind in KINDS},
    ("image", "labels"): ["b", "a"], "std": [99.0], "max_length": 20, "null_threshold": 1e9, "beams": 1,
    "max_summary": 5, "length_penalty": -9.0, "no_repeat": 1,
}  # fmt: skip
EFFECTS = [
    (kind, option)
    for kind in KINDS
    for option in options_of(kind)
    if option != "metric" or len(metrics_of(kind)) > 1
]


@pytest.fixture(scope="module")
def trunks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    bert = load_trunk(save_checkpoint(folder / "bert", "bert"))
    t5 = load_trunk(save_checkpoint(folder / "t5", "t5", head=True), decoder=True)
    return {
        "summarization": t5,
        "image": load_trunk("resnet18", channels=1, small=True, width=4),
        "": bert,
    }


def traced(trunks: dict[str, Any], kind: str, options: dict[str, Any]) -> str:
    """All that a task does with its examples: what it reads, learns from, answers and scores."""
    _, examples, predictions = CASES[kind]
    trunk, tokens = copy.deepcopy(trunks.get(kind, trunks[""]))
    task = build(kind, **options)
    encoded = task.encode(examples, tokens)
    torch.manual_seed(0)
    model = MultiTaskModel(trunk, {"it": task.new_head(trunk)})
    batch = encoded.batch(range(len(encoded)))
    torch.manual_seed(1)
    loss, items = task.loss(model.train()("it", batch), batch)
    with torch.no_grad():
        rows = task.read(model.eval(), "it", batch)
    found = task.decode(examples, encoded, rows)
    answers = task.answers(examples, encoded, rows) if kind == "question_answering" else []  # type: ignore[attr-defined]
    scores = {} if kind == "masked_lm" else task.score(examples, predictions)
    read = {name: part.tolist() for name, part in encoded.parts()[0].items()}
    return repr((read, loss.item(), items, found, answers, scores, task.main_metric))


@pytest.mark.parametrize(("kind", "option"), EFFECTS)
def test_every_option_of_a_kind_changes_what_it_does(
    trunks: dict[str, Any], kind: str, option: str
) -> None:
    base = {**CASES[kind][0], **WITH.get(option, {})}
    other = OTHER.get((kind, option), OTHER.get(option, VALUES[option]))
    one, two = traced(trunks, kind, base), traced(trunks, kind, {**base, option: other})
    assert traced(trunks, kind, base) == one  # nothing else differs from call to call
    assert one != two
