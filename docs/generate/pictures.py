"""The pictures of the methods' pages, drawn from small real runs: `python docs/generate/pictures.py`.

Arrows are what `backward` left in `.grad`, paths are the weights after each step, curves are the
weights of the tasks that the method reported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib import pyplot
from matplotlib.axes import Axes
from torch import nn

import gradaccord

FOLDER = Path(__file__).parents[1] / "figures" / "methods"
BLUE, ORANGE, GREY, BLACK = "#1f6fb4", "#d9730d", "#8a8a8a", "#202020"
Drawn = Callable[[Axes], None]
matplotlib.rcParams |= {
    **{
        "svg.fonttype": "none",
        "svg.hashsalt": "gradaccord",
        "font.size": 9,
        "font.family": "sans-serif",
    },
    **{"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False},
}


# Arrows: two tasks, whose losses are linear in two weights, so that their gradients are given.


def _step(make: Callable[[Any], Any], *gradients: tuple[float, float]) -> torch.Tensor:
    """The gradient that a method makes of two gradients; those before the last pair come first."""
    weights = nn.Parameter(torch.zeros(2))
    method = make([("w", weights)])
    for first, second in zip(gradients[::2], gradients[1::2], strict=True):
        losses = {
            name: partial(lambda g: torch.tensor(g) @ weights + 1.0, g)
            for name, g in (("one", first), ("two", second))
        }
        method.backward(losses)
    assert weights.grad is not None
    return -weights.grad


def arrow(axes: Axes, end: Any, colour: str, label: str, style: str = "-") -> None:
    """From the origin to a point, with a label beyond its head."""
    x, y = (float(value) for value in end)
    properties = {
        "arrowstyle": "-|>",
        "color": colour,
        "lw": 1.8,
        "linestyle": style,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    axes.annotate("", (x, y), (0, 0), arrowprops=properties)
    length = max((x * x + y * y) ** 0.5, 1e-9)
    axes.annotate(
        label, (x + 0.13 * x / length, y + 0.13 * y / length), color=colour, ha="center", va="center"
    )


def arrows(make: Callable[[Any], Any], *gradients: tuple[float, float], name: str) -> Drawn:
    """The two tasks' steps, their sum, and the step of the method."""

    def draw(axes: Axes) -> None:
        first, second = (-torch.tensor(g) for g in gradients[-2:])
        ends = [first, second, first + second, _step(make, *gradients)]
        if not torch.allclose(ends[2], ends[3]):
            arrow(axes, ends[2], GREY, "sum", "--")
        arrow(axes, first, BLUE, "task 1")
        arrow(axes, second, ORANGE, "task 2")
        arrow(axes, ends[3], BLACK, name)
        frame(axes, torch.stack([torch.zeros(2), *ends]), 0.35)
        axes.set_axis_off()

    return draw


def frame(axes: Axes, points: torch.Tensor, margin: float) -> None:
    """Limits around all points."""
    low, high = points.min(0).values - margin, points.max(0).values + margin
    axes.set_xlim(float(low[0]), float(high[0]))
    axes.set_ylim(float(low[1]), float(high[1]))
    axes.set_aspect("equal")


# Paths: two tasks, each a bowl with its own lowest point.

BOWLS = {
    "one": (torch.tensor([-1.2, 0.0]), torch.tensor([[1.0, 0.3], [0.3, 3.0]])),
    "two": (torch.tensor([1.2, 0.4]), torch.tensor([[1.4, -0.2], [-0.2, 0.5]])),
}
START = (-0.9, 2.4)


def bowl(task: str, weights: torch.Tensor) -> torch.Tensor:
    """The loss of a task."""
    centre, curvature = BOWLS[task]
    offset = weights - centre
    return 0.5 * ((offset @ curvature) * offset).sum(-1)


Feed = Callable[[int], tuple[str, ...]]


def both(_: int) -> tuple[str, ...]:
    """Both tasks in every step."""
    return "one", "two"


def in_turn(step: int) -> tuple[str, ...]:
    """One task a step."""
    return (("one", "two")[step % 2],)


def path(
    make: Callable[[Any, Any], Any], feed: Feed, steps: int, rate: float
) -> Iterator[tuple[Any, Any]]:
    """After each step: the weights that are trained, and those to evaluate at."""
    weights = nn.Parameter(torch.tensor(START))
    optimizer = torch.optim.SGD([weights], lr=rate)
    method = make([("w", weights)], optimizer)
    for step in range(steps):
        method.backward({task: partial(bowl, task, weights) for task in feed(step)})
        optimizer.step()
        moved = weights.detach().clone()
        method.after_step()
        optimizer.zero_grad()
        with method.outer_weights():
            yield moved, weights.detach().clone()


def paths(
    make: Callable[[Any, Any], Any], feed: Feed, steps: int, rate: float, outer: str = ""
) -> Drawn:
    """The contours of the summed loss, the steps taken, and the outer weights."""

    def draw(axes: Axes) -> None:
        contours(axes)
        walked = list(path(make, feed, steps, rate))
        inner = torch.stack([torch.tensor(START), *(theta for theta, _ in walked)])
        axes.plot(*inner.T, color=BLUE, lw=0.9, marker=".", ms=3, label="training steps")
        if outer:
            shown = torch.stack([torch.tensor(START), *(phi for _, phi in walked)])
            keep = [0, *(i for i in range(1, len(shown)) if not torch.equal(shown[i], shown[i - 1]))]
            axes.plot(*shown[keep].T, color=BLACK, lw=1.6, marker="o", ms=3.5, label=outer)
        axes.legend(loc="upper right", fontsize=8)

    return draw


def alone(axes: Axes) -> None:
    """Two models from one start, each trained on its own task."""
    contours(axes)
    for task, colour in (("one", BLUE), ("two", ORANGE)):
        walked = path(lambda named, _: gradaccord.Sum(named), lambda _, task=task: (task,), 30, 0.15)
        points = torch.stack([torch.tensor(START), *(theta for theta, _ in walked)])
        axes.plot(*points.T, color=colour, lw=1.2, marker=".", ms=3, label=f"model of task {task}")
    axes.legend(loc="upper right", fontsize=8)


def contours(axes: Axes) -> None:
    """The plane: levels of the summed loss, and the lowest point of each task."""
    x, y = torch.meshgrid(torch.linspace(-2.5, 2.7, 40), torch.linspace(-1.3, 2.8, 40), indexing="xy")
    grid = torch.stack([x, y], -1)
    total = sum(bowl(task, grid) for task in BOWLS)
    axes.contour(x, y, total, levels=(2, 3, 4.5, 7, 10), colors="#cfcfcf", linewidths=0.8)
    for (task, (centre, _)), colour in zip(BOWLS.items(), (BLUE, ORANGE), strict=True):
        axes.plot(*centre, marker="*", ms=11, color=colour, ls="")
        axes.annotate(f"task {task}", centre + torch.tensor([0.0, -0.28]), color=colour, ha="center")
    axes.set_xlim(-2.3, 2.5)
    axes.set_ylim(-1.2, 2.7)
    axes.set_aspect("equal")
    axes.set_axis_off()


# Steps at one point: what is added to the gradient of two batches, or where it is taken.


def displaced(
    make: Callable[[Any], Any], name: str, feed: Feed = both, start: tuple[float, float] = START
) -> Drawn:
    """The plain step on the batches, and the method's, from one point of the plane."""

    def draw(axes: Axes) -> None:
        contours(axes)
        steps = {}
        for label, method in (("plain", gradaccord.Sum), (name, make)):
            weights = nn.Parameter(torch.tensor(start))
            method([("w", weights)]).backward({t: partial(bowl, t, weights) for t in feed(0)})
            assert weights.grad is not None
            steps[label] = -0.22 * weights.grad
        for (label, step), colour in zip(steps.items(), (GREY, BLACK), strict=True):
            end = torch.tensor(start) + step
            axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.8})
            axes.plot([], [], color=colour, lw=1.8, label=label)
        axes.legend(loc="upper right", fontsize=8)

    return draw


# Curves: the weights that a method gives two regressions, of which the second has the larger scale.


class TwoHeads(nn.Module):
    """A small network with a head for each of two regressions."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, 16)
        self.heads = nn.ModuleDict({"one": nn.Linear(16, 1), "two": nn.Linear(16, 1)})

    def forward(self, inputs: torch.Tensor, task: str) -> torch.Tensor:
        """The values that a task predicts."""
        return self.heads[task](self.trunk(inputs).tanh())


def regression(model: nn.Module, task: str, inputs: torch.Tensor) -> torch.Tensor:
    """The squared error of a task; targets and noise of the second are three times as large."""
    target = inputs[:, :1].sin() if task == "one" else 3 * inputs[:, 1:3].sum(1, keepdim=True).sin()
    noise = (0.4 if task == "one" else 1.2) * torch.randn(len(inputs), 1)
    return (model(inputs, task) - target - noise).square().mean()


def curves(make: Callable[[Any], Any], steps: int = 300) -> Drawn:
    """The tasks' weights over the steps."""

    def draw(axes: Axes) -> None:
        torch.manual_seed(0)
        model = TwoHeads()
        optimizer, method = torch.optim.Adam(model.parameters(), lr=3e-3), make(model)
        found = []
        for _ in range(steps):
            inputs = torch.randn(64, 4)
            tasks = {task: partial(regression, model, task, inputs) for task in ("one", "two")}
            found.append(method.backward(tasks).weights.flatten().tolist())
            optimizer.step()
            method.after_step()
            optimizer.zero_grad()
        for values, colour, label in zip(
            zip(*found, strict=True), (BLUE, ORANGE), ("task 1", "task 2, larger scale"), strict=True
        ):
            axes.plot(values, color=colour, lw=1.2, label=label)
        axes.set_xlabel("step")
        axes.set_ylabel("weight of the loss")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)

    return draw


# Regularisers


def smart(axes: Axes) -> None:
    """A curve through few points, fitted with and without the term."""
    inputs = torch.linspace(-1, 1, 9).unsqueeze(1)
    torch.manual_seed(3)
    targets = (2 * inputs).sin() + 0.35 * torch.randn(9, 1)
    grid = torch.linspace(-1.1, 1.1, 120).unsqueeze(1)
    axes.plot(inputs, targets, "o", ms=4, color=GREY, label="data")
    for weight, colour in ((0.0, ORANGE), (3.0, BLUE)):
        torch.manual_seed(0)
        layers = (nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        model = nn.Sequential(nn.Identity(), *layers)
        term = gradaccord.SMART(model, weight=weight, epsilon=0.15, module=model[0], probe_every=0)
        squared = partial(nn.functional.mse_loss, target=targets)
        optimizer, method = torch.optim.Adam(model.parameters(), lr=1e-2), gradaccord.Sum(model)
        for _ in range(400):
            method.backward({"fit": term.loss(partial(model, inputs), squared, kind="regression")})
            optimizer.step()
            term.after_step()
            optimizer.zero_grad()
        label = f"SMART, weight {weight:g}" if weight else "without"
        axes.plot(grid, model(grid).detach(), color=colour, lw=1.4, label=label)
    axes.legend(fontsize=8)


def recadam(axes: Axes) -> None:
    """How far the weights go from the pretrained ones."""
    for label, colour in (("AdamW", ORANGE), ("RecAdam", BLUE)):
        torch.manual_seed(0)
        model = TwoHeads()
        start = [p.detach().clone() for p in model.parameters()]
        options: dict[str, Any] = {"lr": 3e-3}
        if label == "RecAdam":
            options |= {"k": 0.05, "t0": 150.0, "gamma": 50.0}
        optimizer = (torch.optim.AdamW if label == "AdamW" else gradaccord.RecAdam)(
            model.parameters(), **options
        )
        found = []
        for _ in range(300):
            regression(model, "two", torch.randn(64, 4)).backward()
            optimizer.step()
            optimizer.zero_grad()
            pairs = zip(model.parameters(), start, strict=True)
            found.append(sum(float((p.detach() - s).square().sum()) for p, s in pairs) ** 0.5)
        axes.plot(found, color=colour, lw=1.4, label=label)
    axes.axvline(150, color=GREY, lw=0.8, ls=":")
    axes.annotate("t0", (152, 0.02), color=GREY)
    axes.set_xlabel("step")
    axes.set_ylabel("distance from the start")
    axes.legend(fontsize=8)


class Words(nn.Module):
    """The mean of word embeddings, and a class for it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.encoder = nn.Linear(16, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Scores of two classes."""
        return self.head(self.encoder(self.embedding(words)).tanh().mean(1))


def swep(axes: Axes) -> None:
    """The variance of the noise on words that decide the class, and on all others."""
    torch.manual_seed(0)
    model = Words()
    term = gradaccord.SWEP(model, encoder=model.encoder, beta=0.02)
    optimizer, method = torch.optim.Adam(term.parameters(), lr=5e-3), gradaccord.Sum(term)
    deciding, others = [], []
    for _ in range(400):
        words = torch.randint(2, 30, (64, 6))
        labels = torch.randint(0, 2, (64,))
        words[:, 0] = labels  # words 0 and 1 decide, the others mean nothing
        loss = partial(nn.functional.cross_entropy, target=labels)
        method.backward({"words": term.loss(partial(model, words), loss)})
        optimizer.step()
        term.after_step()
        optimizer.zero_grad()
        with torch.no_grad():
            log_variance = term.network(model.encoder(model.embedding(torch.arange(30)))).chunk(2, -1)[
                1
            ]
        deciding.append(float(log_variance[:2].exp().mean()))
        others.append(float(log_variance[2:].exp().mean()))
    axes.plot(deciding, color=BLUE, lw=1.4, label="the two words that decide")
    axes.plot(others, color=ORANGE, lw=1.4, label="other words")
    axes.set_xlabel("step")
    axes.set_ylabel("variance of the noise")
    axes.legend(fontsize=8)


CONFLICT = ((-1.3, -0.1), (0.65, -0.6))
AGREE = ((-1.0, -0.15), (-0.6, -0.9))


def _gradvac(named: Any) -> Any:
    return gradaccord.GradVac(named, beta=0.2)


PICTURES: dict[str, Drawn] = {
    "sum": arrows(gradaccord.Sum, *CONFLICT, name="sum"),
    "mean": arrows(gradaccord.Mean, *CONFLICT, name="mean"),
    "pcgrad": arrows(gradaccord.PCGrad, *CONFLICT, name="PCGrad"),
    "gradvac": arrows(_gradvac, *(AGREE * 12), (-1.0, -0.15), (-0.15, -1.0), name="GradVac"),
    "config": arrows(gradaccord.ConFIG, *CONFLICT, name="ConFIG"),
    "torchjd": arrows(lambda named: gradaccord.TorchJD(named, "UPGrad"), *CONFLICT, name="UPGrad"),
    "gradnorm": curves(gradaccord.GradNorm),
    "uncertainty": curves(gradaccord.UncertaintyWeighting),
    "dwa": curves(partial(gradaccord.DWA, window=20)),
    "rlw": curves(gradaccord.RLW, 60),
    "famo": curves(gradaccord.FAMO),
    "loss_scale": curves(gradaccord.LossScale),
    "smooth_tchebycheff": curves(gradaccord.SmoothTchebycheff),
    "torchjd_loss": curves(gradaccord.TorchJDLoss),
    "paired_sum": displaced(gradaccord.PairedSum, "PairedSum"),
    "dotprod": displaced(
        partial(gradaccord.DotProd, max_ratio=0.6, weight=1.0), "DotProd, large weight"
    ),
    "sam": displaced(
        partial(gradaccord.SAM, radius=0.6), "SAM, large radius", lambda _: ("one",), (0.9, 1.5)
    ),
    "sequential": paths(lambda named, _: gradaccord.Sum(named), in_turn, 40, 0.3),
    "sequential_reptile": paths(
        partial(gradaccord.SequentialReptile, inner_steps=8, outer_lr=0.3),
        in_turn,
        80,
        0.3,
        "outer weights",
    ),
    "reptile": paths(
        partial(gradaccord.Reptile, inner_steps=4, outer_lr=0.5), both, 40, 0.12, "outer weights"
    ),
    "fomaml": paths(partial(gradaccord.FOMAML, inner_steps=4), both, 60, 0.12, "outer weights"),
    "multitask_reptile": paths(
        partial(gradaccord.MultiTaskReptile, tasks=2, inner_steps=8, outer_lr=0.3),
        lambda step: (("one", "two")[step // 8 % 2],),
        96,
        0.15,
        "outer weights",
    ),
    "averaged": paths(
        lambda named, _: gradaccord.Averaged(named, decay=0.9), both, 40, 0.38, "running mean"
    ),
    "sequential_averaged": paths(
        lambda named, _: gradaccord.Averaged(named, decay=0.9), in_turn, 60, 0.3, "running mean"
    ),
    "stl": alone,
    "smart": smart,
    "swep": swep,
    "recadam": recadam,
}


def main(
    names: Sequence[str] = (), pictures: Mapping[str, Drawn] = PICTURES, folder: Path = FOLDER
) -> None:
    """Draw them all, or those named."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or pictures:
        torch.manual_seed(0)
        figure, axes = pyplot.subplots(figsize=(4.6, 3.0), layout="constrained")
        pictures[name](axes)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, facecolor="white")
        pyplot.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
