"""A kind of task is one class: one defined here does all that the library's own kinds do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from small_models import save_checkpoint
from torch import nn

from gradaccord import data
from gradaccord.cli.init import starting_file
from gradaccord.data.encoded import Batch, Encoded, Ragged
from gradaccord.data.examples import EXAMPLES, Example
from gradaccord.data.files.cells import Cells
from gradaccord.models.heads import SequenceHead
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.models.trunks.trunk import Trunk
from gradaccord.tasks import KINDS, Task, analyse, build, evaluate, options, task_for
from gradaccord.tasks.saved_models import save
from gradaccord.tasks.task import Output
from gradaccord.train.config_file import check_config
from gradaccord.train.predict import Predictor


@dataclass(frozen=True, slots=True)
class Rated(Example):
    """A text with a grade from 0 to 1."""

    text: str
    label: float | None = None
    id: str = ""

    kinds: ClassVar[Any] = {"grade": "number"}
    needed = ("text",)
    optional = ("label", "id")
    about = ("text",)

    @classmethod
    def read(cls, cells: Cells) -> Rated:
        return cls(cells.text("text"), cells.label, cells.id)


@dataclass(frozen=True)
class Grade(Task[Rated]):
    """A grade from 0 to 1, by binary cross-entropy."""

    scale: float = 1.0

    kind = "grade"
    metric = "within"

    def encode(self, examples: Sequence[Rated], tokens: Any) -> Encoded:
        encodings = tokens.encode([e.text for e in examples], max_length=32)
        labels = [-1.0 if e.label is None else float(e.label) for e in examples]
        return Encoded(
            ids=Ragged.of([one.ids for one in encodings]),
            first=torch.arange(len(examples) + 1),
            example=torch.arange(len(examples)),
            columns={"label": torch.tensor(labels)},
            pad=tokens.pad,
        )

    def new_head(self, trunk: Trunk) -> nn.Module:
        return SequenceHead(trunk.hidden, 1)

    def loss(self, output: Output, batch: Batch) -> tuple[torch.Tensor, int]:
        assert isinstance(output, torch.Tensor)
        logits, labels = self.scale * output.squeeze(-1), batch["label"]
        return nn.functional.binary_cross_entropy_with_logits(logits, labels), len(labels)

    def read(self, model: nn.Module, name: str, batch: Batch) -> list[Any]:
        return (self.scale * model(name, batch).squeeze(-1)).sigmoid().tolist()  # type: ignore[no-any-return]

    def decode(self, examples: Sequence[Rated], encoded: Encoded, rows: Sequence[Any]) -> list[Any]:
        return list(rows)

    def gold(self, example: Rated) -> float | None:
        return None if example.label is None else float(example.label)

    def score(self, examples: Sequence[Rated], predictions: Sequence[Any]) -> dict[str, float]:
        pairs = list(zip(*self.labelled(examples, predictions), strict=True))
        return {"within": 100 * sum(abs(gold - said) < 0.5 for gold, said in pairs) / len(pairs)}

    def is_right(self, example: Rated, gold: Any, predicted: Any) -> bool:
        return abs(gold - predicted) < 0.5

    def signed_error(self, gold: Any, predicted: Any) -> float | None:
        return float(predicted) - float(gold)


EXAMPLES.pop("grade")  # other tests go over all kinds


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(EXAMPLES, "grade", Rated)
    KINDS.register(Grade)
    yield
    KINDS._registered.pop("grade")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"text": f"{'good' if n % 2 else 'bad'} film {n}", "label": n % 2} for n in range(8)]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_kind_of_ones_own_is_read_trained_evaluated_saved_and_asked(
    file: Path, tmp_path: Path
) -> None:
    dataset = data.read("grade", {"train": file})
    examples = dataset.split("train")
    assert type(examples[0]) is Rated is EXAMPLES["grade"]
    task = task_for(dataset, scale=2)
    assert task == Grade(scale=2.0) == build("grade", **options(task))

    torch.manual_seed(0)
    trunk, tokens = load_trunk(save_checkpoint(tmp_path / "bert", "bert"))
    model = MultiTaskModel(trunk, {"films": task.new_head(trunk)})
    encoded = task.encode(examples, tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(30):
        batch = encoded.batch(range(len(encoded)))
        loss, items = task.loss(model("films", batch), batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert items == 8
    assert losses[-1] < losses[0]
    found = evaluate(model, "films", task, examples, encoded)
    assert found.scores["within"] == 100

    save(tmp_path / "model", model, tokens, {"films": task})
    predictor = Predictor(tmp_path / "model")
    assert predictor([predictor.example("good film 1")]) == pytest.approx([found.predictions[1]])
    with pytest.raises(ValueError, match="there is no column 'text'"):
        predictor.example({"words": "good film"})


def test_its_errors_are_shown_and_its_starting_file_is_a_configuration() -> None:
    examples = [Rated(f"film {n}", n / 2, str(n)) for n in range(3)]
    analysis = analyse(Grade(), examples, [0.1, 0.4, 0.2])
    assert (analysis.examples, [one.id for one in analysis.worst]) == (3, ["2"])
    assert analysis.histogram is not None
    assert sum(analysis.histogram.counts) == 3
    assert (analysis.worst[0].gold, analysis.worst[0].predicted) == (1.0, 0.2)
    text = starting_file("grade", "x.yaml")
    assert "# each line: text, label" in text
    assert check_config({"tasks": {"t": {"files": {"train": "a.jsonl"}, "kind": "grade", "scale": 2}}})


def test_its_options_are_checked_like_those_of_every_kind() -> None:
    with pytest.raises(ValueError, match="`scale` is 'big': it must be a number."):
        build("grade", scale="big")
