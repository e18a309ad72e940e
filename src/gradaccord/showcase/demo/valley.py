"""The second part of the demo: a valley that PCGrad leaves and the plain sum does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

from gradaccord.core.threads import one_thread
from gradaccord.probe.figure import new_figure
from gradaccord.runs.files import RESULTS
from gradaccord.runs.versioned import Versioned
from gradaccord.showcase.demo.settings import DemoSettings
from gradaccord.showcase.valley import LAST, PCGRAD, SUM, descend, losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = "valley"
PICTURE = "valley.png"
STARTS = 16
STEPS = 20_000
RATES = (0.003, 0.01, 0.03, 0.1)
SHOWN = 0.01  # the rate of the picture and of the sentence
NAMES = {SUM: "sum", PCGRAD: "PCGrad"}
SHADES = (-60.0, 40.0)  # the losses drawn black and white
MARKERS = {SUM: "s", PCGRAD: "o"}
COLOURS = {SUM: "#D55E00", PCGRAD: "#0072B2"}  # Okabe and Ito's
PIECES = 100  # a run is cut into these; its curve has the median of each
DOTS = 80  # per inch; enough for a screen


class Valleys(Versioned):
    """From how many starts each method learned both tasks, and how low it ended, rate by rate.

    Every run falls into the first task's valley at once. The second task's loss, about 29 at the start,
    counts as learned if its median over the last tenth of the steps is below 0.
    """

    FILE: ClassVar[str] = RESULTS

    starts: int
    steps: int
    rates: tuple[float, ...]
    learned: dict[str, list[int]]  # method -> starts, by rate
    ends: dict[str, list[float]]  # method -> summed loss, median over the starts, by rate

    @property
    def sentence(self) -> str:
        """What was found at the rate of the picture, and at the others."""
        place = self.rates.index(SHOWN)
        pcgrad, plain = (self.learned[method][place] for method in (PCGRAD, SUM))
        rates = ", ".join(f"{rate:g}" for rate in self.rates)
        by_rate = [", ".join(map(str, self.learned[method])) for method in (PCGRAD, SUM)]
        return (
            "In a narrow valley where the gradients of two tasks conflict, PCGrad learns both from "
            f"{pcgrad} of {self.starts} starts and plain descent on the sum from {plain} (rate "
            f"{SHOWN:g}; at the rates {rates}: PCGrad {by_rate[0]}, the sum {by_rate[1]})."
        )


def valleys(settings: DemoSettings) -> Valleys:
    """Run both methods, unless results with these settings and their picture are there already."""
    folder, steps = settings.out / FOLDER, settings.shortened(STEPS)
    if Valleys.exists(folder) and (folder / PICTURE).exists():
        found = Valleys.read(folder)
        if (found.starts, found.steps, found.rates) == (STARTS, steps, RATES):
            return found
    with one_thread():
        paths = {method: descend(method, range(STARTS), RATES, steps) for method in NAMES}
    last = {method: losses(path[-max(1, steps // LAST) :]) for method, path in paths.items()}
    found = Valleys(
        starts=STARTS,
        steps=steps,
        rates=RATES,
        learned={m: (own[..., 1].median(0).values < 0).sum(-1).tolist() for m, own in last.items()},
        ends={m: own.sum(-1).median(0).values.median(-1).values.tolist() for m, own in last.items()},
    )
    folder.mkdir(parents=True, exist_ok=True)
    figure_of({method: path[:, RATES.index(SHOWN)] for method, path in paths.items()}).savefig(
        folder / PICTURE, dpi=DOTS
    )
    found.write(folder)
    return found


def figure_of(paths: dict[str, torch.Tensor]) -> Figure:
    """Where the runs end on the map of the summed loss, and the second task's loss on the way.

    paths: method -> points [1 + steps, starts, 2].
    """
    figure = new_figure(11, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    _map(left, paths)
    _curves(right, paths)
    return figure


def _map(axes: Axes, paths: dict[str, torch.Tensor]) -> None:
    last = -max(1, len(next(iter(paths.values()))) // LAST)
    ends = {method: path[last:].median(0).values for method, path in paths.items()}
    starts = next(iter(paths.values()))[0]
    points = torch.cat([*ends.values(), starts])
    low, high = (points.min(0).values - 1).tolist(), (points.max(0).values + 1).tolist()
    a, b = (torch.linspace(*ends, 240, dtype=torch.float64) for ends in zip(low, high, strict=True))
    plane = torch.stack(torch.meshgrid(a, b, indexing="xy"), -1)
    height = losses(plane).sum(-1).clamp(*SHADES)
    image = axes.pcolormesh(a.numpy(), b.numpy(), height.numpy(), cmap="Greys_r", rasterized=True)
    axes.figure.colorbar(image, ax=axes, label="summed loss", extend="both")
    axes.plot(*starts.T.numpy(), "k.", ms=5, label="starts")
    for method, own in ends.items():
        axes.plot(
            *own.T.numpy(), MARKERS[method], ms=6, mec="white", mew=0.6, color=COLOURS[method],
            label=f"{NAMES[method]}, end",
        )  # fmt: skip
    axes.set_xlabel("a")
    axes.set_ylabel("b")
    axes.legend(fontsize=8, loc="upper right")


def _curves(axes: Axes, paths: dict[str, torch.Tensor]) -> None:
    for method, path in paths.items():
        second = losses(path)[1:, :, 1]
        size = max(1, len(second) // PIECES)
        pieces = second[: len(second) // size * size].reshape(-1, size, len(path[0])).median(1).values
        steps = [(i + 0.5) * size for i in range(len(pieces))]
        for place, own in enumerate(pieces.T):
            label = NAMES[method] if not place else None
            axes.plot(steps, own.numpy(), color=COLOURS[method], lw=0.9, alpha=0.7, label=label)
    axes.axhline(0, color="black", lw=0.8)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel("steps")
    axes.set_ylabel("second task's loss (learned below 0)")
    axes.legend(fontsize=8, loc="lower left")
