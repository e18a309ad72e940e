"""The pictures of the few-shot learners' pages: `python docs/generate/learner_pictures.py`.

Real updates of the learners, on the plane of `pictures.py` (a task is a bowl, the model is a point) and
on sine waves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from pictures import BLACK, BLUE, BOWLS, GREY, ORANGE, START, Drawn, arrow, bowl, contours, frame, main
from torch import nn

from gradaccord import meta
from gradaccord.meta.learners.inner_loops import last

FOLDER = Path(__file__).parents[1] / "figures" / "learners"
TASKS, COLOURS = tuple(BOWLS), (BLUE, ORANGE)


# The plane: the model is a point, the label of an example is the task whose bowl is its loss.


class Point(nn.Module):
    """Two weights, which are the output for every input."""

    def __init__(self, start: tuple[float, float] = START) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(start))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The point, once for each input."""
        return self.weights.expand(len(inputs), 2)


def height(points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean loss of points, each in the bowl of its label."""
    pairs = zip(points, labels, strict=True)
    return torch.stack([bowl(TASKS[int(label)], point) for point, label in pairs]).mean()


def task(*labels: int) -> meta.Task:
    """A task whose examples have these labels; support and query are the same."""
    inputs, numbers = torch.zeros(len(labels), 1), torch.tensor(labels)
    return meta.Task(inputs, numbers, inputs, numbers)


BOTH = (task(0), task(1))
Made = Callable[..., Any]


def updates(
    learner: Any, tasks: Sequence[meta.Task], steps: int, rate: float, optimiser: Any = torch.optim.SGD
) -> torch.Tensor:
    """The point at the start and after each update."""
    optimizer = optimiser(learner.parameters(), lr=rate)
    found = [learner.model.weights.detach().clone()]
    for _ in range(steps):
        learner.backward(tasks)
        optimizer.step()
        learner.after_step()
        optimizer.zero_grad()
        found.append(learner.model.weights.detach().clone())
    return torch.stack(found)


def adapted(learner: Any, one: meta.Task, steps: int) -> torch.Tensor:
    """The point at phi and after each inner step on a task."""
    walked = learner.trajectory(one.support, one.support_labels, steps)
    return torch.stack([params["weights"].detach().clone() for params in walked])


def plane(make: Made, steps: int, rate: float, inner: int) -> Drawn:
    """The updates of phi, and the inner steps to each task from its last place."""

    def draw(axes: Axes) -> None:
        contours(axes)
        learner = make(Point(), loss=height)
        phi = updates(learner, BOTH, steps, rate)
        axes.plot(*phi.T, color=BLACK, lw=1.4, marker="o", ms=3, label="meta-updates")
        for one, colour, name in zip(BOTH, COLOURS, TASKS, strict=True):
            path = adapted(learner, one, inner)
            label = f"inner steps, task {name}"
            axes.plot(*path.T, color=colour, lw=1.2, marker=".", ms=4, label=label)
        axes.legend(loc="upper right", fontsize=8)

    return draw


def fomaml(axes: Axes) -> None:
    """The updates of MAML and of FOMAML from one start."""
    contours(axes)
    for make, colour in ((meta.MAML, GREY), (meta.FOMAML, BLACK)):
        learner = make(Point(), inner_lr=0.2, inner_steps=3, loss=height)
        phi = updates(learner, BOTH, 14, 0.7)
        axes.plot(*phi.T, color=colour, lw=1.4, marker="o", ms=3, label=make.__name__)
    axes.legend(loc="upper right", fontsize=8)


def _step(axes: Axes, path: torch.Tensor, colour: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.8}
    axes.annotate("", path[1], path[0], arrowprops=style)


def meta_sgd(axes: Axes) -> None:
    """One inner step to each task: with one rate for all weights, and with learned rates."""
    contours(axes)
    for learned, colours in ((False, (GREY, GREY)), (True, COLOURS)):
        make = meta.MetaSGD if learned else meta.MAML
        learner = make(Point(), inner_lr=0.15, inner_steps=1, loss=height)
        updates(learner, BOTH, 400, 0.03, torch.optim.Adam)
        for one, colour in zip(BOTH, colours, strict=True):
            path = adapted(learner, one, 1)
            _step(axes, path, colour)
        label = "one step, learned rates" if learned else "one step of MAML, rate 0.15"
        axes.plot([], [], color=colours[0], lw=1.8, label=label)
    axes.legend(loc="upper right", fontsize=8)


def sharing(axes: Axes) -> None:
    """What two tasks descend along, with s(lambda) at its start, 0.5."""
    own = [torch.tensor([1.3, 0.2]), torch.tensor([-0.2, 1.1])]
    shared = meta.GradientSharing(["w"], [own[0]], steps=1)
    followed, mean = shared.directions([[one] for one in own], 0, None)
    arrow(axes, mean[0], GREY, "mean", "--")
    for number, (one, (new,)) in enumerate(zip(own, followed, strict=True)):
        arrow(axes, one, COLOURS[number], f"task {number + 1}")
        arrow(axes, new.detach(), BLACK, f"{number + 1}, shared")
    frame(axes, torch.stack([torch.zeros(2), *own, mean[0]]), 0.35)
    axes.set_axis_off()


def dotprod(axes: Axes) -> None:
    """Two mini-batches of one task, each with its own bowl: the plain step, and both readings."""
    contours(axes)
    options: dict[str, Any] = {"inner_optimizer": "sgd", "inner_batch": 1, "inner_lr": 0.11}
    strong = {"weight": 1.0, "max_ratio": 0.6}
    for label, colour, own in (
        ("outer reading, weight 0", GREY, {"reading": "outer", "weight": 0.0}),
        ("outer reading, large weight", BLACK, {"reading": "outer", **strong}),
        ("inner reading, six mini-batches", BLUE, {"reading": "inner", "inner_steps": 6, **strong}),
    ):
        learner = meta.DotProd(Point(), loss=height, **options, **own)
        rate = 1.0 if own["reading"] == "inner" else 0.22
        path = updates(learner, (task(0, 1),), 1, rate)
        axes.annotate(
            "", path[1], path[0], arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.8}
        )
        axes.plot([], [], color=colour, lw=1.8, label=label)
    axes.legend(loc="upper right", fontsize=8)


# Sine waves (Finn et al. 2017): a task is a wave of its own amplitude and phase.


def wave_network(hidden: int = 40) -> nn.Sequential:
    """The network of the paper: two hidden layers of 40 with ReLU."""
    return nn.Sequential(
        nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
    )


def trained(learner: Any, rate: float, steps: int, tasks: int) -> Iterator[Any]:
    """The learner after each update on waves."""
    optimizer = torch.optim.Adam(learner.parameters(), lr=rate)
    waves = meta.Sinusoids(tasks=tasks)
    for _ in range(steps):
        learner.backward(next(waves))
        optimizer.step()
        learner.after_step()
        optimizer.zero_grad()
        yield learner


def maml(axes: Axes) -> None:
    """A wave that was not trained on: before adaptation, and after inner steps on a few points."""
    start = meta.MAML(wave_network(), inner_lr=0.02, inner_steps=3, loss=nn.functional.mse_loss)
    learner = last(trained(start, 3e-3, 600, 8))
    one = next(meta.Sinusoids(shots=6, queries=60, tasks=8, seed=5))[3]
    order = one.query.flatten().argsort()
    x, y = one.query[order], one.query_labels[order]
    axes.plot(x, y, color=GREY, lw=1, ls="--", label="the wave, and points of it")
    axes.plot(one.support, one.support_labels, "o", ms=4, color=GREY)
    names = {0: ("meta-learned start", ORANGE), 1: ("1 inner step", "#8db8dd"), 3: ("3 steps", BLUE)}
    for step, params in enumerate(learner.trajectory(one.support, one.support_labels, 3)):
        if step in names:
            label, colour = names[step]
            shown = torch.func.functional_call(learner.model, params, (x,)).detach()
            axes.plot(x, shown, color=colour, lw=1.4, label=label)
    axes.legend(fontsize=8)


def mamlpp(axes: Axes) -> None:
    """The learned inner rates of each step, a mean over the tensors."""
    learner = meta.MAMLPlusPlus(
        wave_network(), inner_lr=0.01, inner_steps=3, loss=nn.functional.mse_loss,
        epoch_length=30, multi_step_epochs=10,
    )  # fmt: skip
    rates = [
        [torch.stack(now.rates_at(step)).mean().item() for step in range(3)]
        for now in trained(learner, 1e-3, 400, 8)
    ]
    for step, colour in enumerate((BLUE, ORANGE, BLACK)):
        axes.plot([now[step] for now in rates], color=colour, lw=1.4, label=f"inner step {step + 1}")
    axes.axhline(0.01, color=GREY, lw=0.8, ls=":")
    axes.set_xlabel("meta-update")
    axes.set_ylabel("learned rate")
    axes.legend(fontsize=8)


PICTURES: dict[str, Drawn] = {
    "maml": maml,
    "fomaml": fomaml,
    "meta_sgd": meta_sgd,
    "mamlpp": mamlpp,
    "sharing": sharing,
    "reptile": plane(
        partial(meta.Reptile, inner_optimizer="sgd", inner_lr=0.25, inner_steps=4, inner_batch=None),
        12,
        0.4,
        4,
    ),
    "dotprod": dotprod,
}


if __name__ == "__main__":
    main(sys.argv[1:], PICTURES, FOLDER)
