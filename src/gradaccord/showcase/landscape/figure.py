"""The landscape figure: loss surface, cosine of the gradients, every method's paths, and the rates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gradaccord.probe.figure import new_figure
from gradaccord.runs.files import write_atomic
from gradaccord.showcase.landscape.plane import OPTIMA, STARTS, TASKS, losses, mean_cosine
from gradaccord.showcase.landscape.runs import CONTROLS, SEQUENTIAL, SWEPT, Result, last_of, mean_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (
    "MTL", "GradNorm", "PCGrad", "GradVac", "RecAdam", "DotProd", "Reptile", SEQUENTIAL,
    CONTROLS[SEQUENTIAL],
)  # fmt: skip
# Okabe and Ito's colours, which colour-blind readers can tell apart; the markers differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73")
MARKERS = ("o", "s", "^")
SIX_COLOURS = ("black", "#0072B2", "#56B4E9", "#009E73", "#D55E00", "#E69F00")
EXTENT = (-5.0, 23.0)
FAINT = 6  # seeds drawn with thin lines beside the first one
LEVELS = tuple(range(-250, 0, 20))  # of the contours of the summed loss
CAPTION = (
    "Lines: one seed bold, up to six more faint. Markers: starts (white edge) and the end of every "
    "seed (black edge: mean of the last fifth of\nthe iterates). Trapped: share of seeds that end "
    "within 1 of an optimum; values are for the starts (20, 5) / (5, 20) / (15, 15)."
)


def draw(result: Result, folder: Path) -> list[Path]:
    """Write `landscape.png` and `landscape.svg` into a folder."""
    figure = figure_of(result)
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "landscape.png", folder / "landscape.svg"]
    with rc_context({"svg.hashsalt": "landscape"}):
        write_atomic(paths[0], lambda file: figure.savefig(file, format="png", dpi=150))
        date = {"Date": None}
        write_atomic(paths[1], lambda file: figure.savefig(file, format="svg", dpi=150, metadata=date))
    return paths


def figure_of(result: Result) -> Figure:
    """The figure, not yet written."""
    figure = new_figure(16, 12.6)
    figure.suptitle(CAPTION, fontsize=11)
    grid = figure.add_gridspec(3, 4)
    _surface(figure.add_subplot(grid[0, 0], projection="3d"))
    _cosines(figure, figure.add_subplot(grid[0, 1]))
    for place, method in enumerate(PANELS, start=2):
        _paths(figure.add_subplot(grid[place // 4, place % 4]), method, result)
    _sweep(figure.add_subplot(grid[2, 3]), result)
    return figure


def _plane(points: int = 121) -> tuple[Any, Any, torch.Tensor]:
    axis = torch.linspace(*EXTENT, points, dtype=torch.float64, device="cpu")
    x, y = torch.meshgrid(axis, axis, indexing="xy")
    return x.numpy(), y.numpy(), torch.stack([x, y], -1)


def _surface(axes: Any) -> None:
    x, y, plane = _plane(71)
    total = losses(plane).sum(-1).numpy()
    axes.plot_surface(
        x, y, total, cmap="cividis", rstride=1, cstride=1, linewidth=0, antialiased=False,
        rasterized=True,
    )  # fmt: skip
    floor = -400.0
    axes.contour(x, y, total, LEVELS, cmap="cividis", offset=floor, linewidths=0.9)
    axes.set_zlim(floor, 0)
    axes.set_zticks([-200, -100, 0])
    axes.view_init(elev=28, azim=52)
    axes.set_box_aspect((1, 1, 0.85), zoom=1.1)
    axes.set_title("Sum of the three losses, ΣL")
    axes.set_xlabel("φ₁")
    axes.set_ylabel("φ₂")


def _cosines(figure: Figure, axes: Axes) -> None:
    x, y, plane = _plane()
    cosine = mean_cosine(plane).numpy()
    mesh = axes.pcolormesh(
        x, y, cosine, cmap="PuOr", vmin=-1, vmax=1, shading="gouraud", rasterized=True
    )
    lines = axes.contour(x, y, cosine, [-0.4, 0.0, 0.4, 0.8], colors="black", linewidths=0.7)
    axes.clabel(lines, fmt="%.1f", fontsize=9)
    bar = axes.inset_axes((0.52, 0.93, 0.42, 0.035))
    figure.colorbar(mesh, cax=bar, orientation="horizontal", ticks=[-1, 0, 1])
    bar.tick_params(colors="white", labelsize=9)
    _frame(axes, "Mean cosine of the tasks' gradients")


def _paths(axes: Axes, method: str, result: Result) -> None:
    x, y, plane = _plane()
    total = losses(plane).sum(-1).numpy()
    axes.set_rasterization_zorder(1)
    axes.contourf(x, y, total, LEVELS, cmap="Greys_r", alpha=0.35, zorder=0, extend="both")
    axes.contour(x, y, total, LEVELS, colors="0.6", linewidths=0.4, linestyles="solid", zorder=0.1)
    path = result.paths[method]
    for i, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        for seed in range(1, min(path.shape[2], 1 + FAINT)):
            axes.plot(*path[:, i, seed].T.numpy(), color=colour, lw=0.5, alpha=0.2, zorder=0.2)
        axes.plot(*path[:, i, 0].T.numpy(), color=colour, lw=1.1, alpha=0.8)
        axes.plot(*STARTS[i].tolist(), marker, color=colour, ms=9, mec="white", zorder=4)
        ends = last_of(path)[:, i].mean(0).T.numpy()
        axes.plot(*ends, marker, color=colour, ms=5.5, mec="black", mew=0.7, ls="none", zorder=5)
    _frame(axes, method)
    trapped = " / ".join(f"{100 * row.trapped_share:.0f}" for row in result.of(method))
    loss = " / ".join(f"{row.loss:.0f}" for row in result.of(method))
    axes.text(
        0.98, 0.98, f"trapped {trapped} %\nΣL {loss}", transform=axes.transAxes, ha="right",
        va="top", fontsize=9, zorder=7, bbox={"facecolor": "white", "alpha": 0.8, "lw": 0, "pad": 2},
    )  # fmt: skip


def _frame(axes: Axes, title: str) -> None:
    for name, (x, y) in zip(TASKS, OPTIMA.tolist(), strict=True):
        axes.plot(x, y, "x", color="black", ms=7, mew=1.8, zorder=6)
        axes.annotate(name, (x, y), (-6, -6), textcoords="offset points", ha="right", va="top")
    axes.set(xlim=EXTENT, ylim=EXTENT, aspect="equal", xlabel="φ₁", ylabel="φ₂", title=title)


def _sweep(axes: Axes, result: Result) -> None:
    """Cosine against loss, means over the starts: a line for each method, a point for each rate."""
    for method, colour, marker in zip(SWEPT, SIX_COLOURS, "osD^vP", strict=True):
        groups = [result.of(method, rate) for rate in result.settings.rates]
        x = [mean_of(group, "loss") for group in groups]
        y = [mean_of(group, "cosine") for group in groups]
        axes.plot(x, y, color=colour, lw=1, marker=marker, ms=5, label=method)
        for point in zip(x, y, groups, strict=True):
            trapped = mean_of(point[2], "trapped_share") > 0.5
            if trapped:
                axes.plot(*point[:2], marker, ms=5, color=colour, mfc="white", zorder=3)
    axes.axhline(0, color="0.8", lw=0.6, zorder=0)
    axes.set(xlabel="ΣL", ylabel="mean cosine", xlim=(-260, 0))
    axes.set_title("At all rates of the sweep; hollow: trapped")
    axes.legend(fontsize=9, loc="upper left")
