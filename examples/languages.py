"""Sequential Reptile over languages: what does a name stand for, in German, Hindi, Swahili and Yoruba?

Needs `pip install 'gradaccord[demo]'`. The names are the Unicode CLDR's, in the package Babel.
"""

from functools import partial
from zlib import crc32

import torch
from torch import nn

import gradaccord
from gradaccord.data import load
from gradaccord.data.samplers import ProportionalTasks, TaskBatches

# %% A task is a language, a class is a kind of name: territory, city, language, currency or unit.
data = {language: load(f"cldr/{language}") for language in ("de", "hi", "sw", "yo")}


def encoded(examples: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers of each name's characters and pairs of characters, 0 for padding, and its class."""
    rows = []
    for text in (f"^{example.first.casefold()}$" for example in examples):
        grams = [text[i : i + n] for n in (1, 2, 3) for i in range(len(text) - n + 1)]
        row = [1 + crc32(gram.encode()) % 4095 for gram in grams[:48]]
        rows.append(row + [0] * (48 - len(row)))
    return torch.tensor(rows), torch.tensor([example.label for example in examples])


train = {language: encoded(own.split("train")) for language, own in data.items()}
test = {language: encoded(own.split("test")) for language, own in data.items()}
sizes = {language: len(labels) for language, (_, labels) in train.items()}


class Model(nn.Module):
    """The mean of the vectors of a name's parts, a hidden layer, and a head for each language."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Embedding(4096, 64, padding_idx=0)
        self.hidden = nn.Linear(64, 64)
        self.heads = nn.ModuleDict({language: nn.Linear(64, 5) for language in data})

    def forward(self, language: str, parts: torch.Tensor) -> torch.Tensor:
        mean = self.parts(parts).sum(1) / (parts != 0).sum(1, keepdim=True)
        return self.heads[language](self.hidden(mean).tanh())


def loss_fn(model: nn.Module, language: str, rows: list[int]) -> torch.Tensor:
    """The loss of one language on one of its batches."""
    parts, labels = train[language]
    return nn.functional.cross_entropy(model(language, parts[rows]), labels[rows])


# %% One trajectory of 15 steps through all languages, then a third of the way along it; and again.
accuracy = {}
for outer_lr in (0.3, 1.0):  # with 1 it is plain sequential training: the control
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    method = gradaccord.SequentialReptile(model, optimizer, inner_steps=15, outer_lr=outer_lr)
    batches = {language: TaskBatches(range(size), 16) for language, size in sizes.items()}
    sampler = ProportionalTasks(sizes, q=0.2)  # a language with N names is drawn with p ~ N^0.2
    for _, (language,) in zip(range(300), sampler, strict=False):
        method.backward({language: partial(loss_fn, model, language, next(batches[language]))})
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
    method.finish()  # the last, shorter trajectory counts too
    right = {t: (model(t, parts).argmax(1) == y).float().mean() for t, (parts, y) in test.items()}
    accuracy[outer_lr] = 100 * sum(right.values()).item() / len(right)
    shown = "  ".join(f"{language} {100 * share:.1f}" for language, share in right.items())
    print(f"outer_lr {outer_lr}: {shown}  mean {accuracy[outer_lr]:.1f} % right")
