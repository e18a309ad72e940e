"""DotProd on a single task, beside the controls without which its result says nothing.

Needs `pip install gradaccord`. The data are made on the spot; it takes some ten seconds.
"""

import statistics
from functools import partial

import torch
from torch import nn

import gradaccord

# %% One task: 400 examples to learn from, a tenth of them with a wrong label, and 2,000 to test on.
generator = torch.Generator().manual_seed(0)
rule = torch.randn(20, 3, generator=generator)
inputs = torch.randn(2400, 20, generator=generator)
labels = (inputs @ rule).argmax(1)
train_labels = labels[:400].clone()
train_labels[:40] = torch.randint(3, (40,), generator=generator)


def loss_fn(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """The loss of a batch, which is given by the numbers of its rows."""
    return nn.functional.cross_entropy(model(inputs[rows]), train_labels[rows])


# %% Four ways to spend 120 batches.
ways = {
    "one batch a step": gradaccord.Sum,
    "PairedSum": gradaccord.PairedSum,  # two batches a step, as DotProd takes them, and no term
    "DotProd, noise for the term": partial(gradaccord.DotProd, control="noise"),
    "DotProd": gradaccord.DotProd,
}


def train(make: type, seed: int) -> tuple[float, float]:
    """Accuracy on the test examples, and the mean cosine between the two batches of a pair."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    method = make(model)
    batches = iter(torch.randint(400, (120, 16), generator=torch.Generator().manual_seed(seed)))
    size = 1 if make is gradaccord.Sum else 2
    cosines = []
    for several in zip(*[batches] * size, strict=True):
        names = ("one", "two")[:size]
        report = method.backward(
            {name: partial(loss_fn, model, rows) for name, rows in zip(names, several, strict=True)}
        )
        optimizer.step()
        method.after_step()
        optimizer.zero_grad()
        cosines.append(report.mean_cosine)
    right = (model(inputs[400:]).argmax(1) == labels[400:]).float().mean()
    return 100 * right.item(), statistics.mean(cosines)


# %% Five seeds each. The comparison that counts is DotProd against PairedSum.
accuracy = {}
print("accuracy, %, mean and standard error of 5 seeds      mean cosine of a pair")
for name, make in ways.items():
    found, cosines = zip(*(train(make, seed) for seed in range(5)), strict=True)
    accuracy[name] = statistics.mean(found)
    error = statistics.stdev(found) / 5**0.5
    cosine = "" if make is gradaccord.Sum else f"{statistics.mean(cosines):29.2f}"
    print(f"{name:28} {accuracy[name]:5.1f} ± {error:.1f} {cosine}")
