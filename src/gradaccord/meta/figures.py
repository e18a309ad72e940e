"""Figures of few-shot runs: validation curves, m and lambda over time, adaptation, one episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gradaccord.meta.episodes.task_batch import Task
from gradaccord.probe.figure import new_figure
from gradaccord.runs.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gradaccord.meta.evaluation import Evaluation

Curve = Sequence[tuple[int, float, float]]  # iteration, accuracy, half of the interval
# Okabe and Ito's colours, which colour-blind readers tell apart; line styles differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")
MOST_COLUMNS = 10  # examples of a class in the picture of an episode
LONGEST_NAME = 24  # of a class there, in characters


def validation_figure(
    runs: Mapping[str, Sequence[Curve]], title: str = "", *, chance: float | None = None
) -> Figure:
    """Validation accuracy against iterations: one line for each method.

    runs: curves of every seed, by method. The line is the mean over seeds, the band their range; with
    one seed the band is its 95 % interval over tasks. chance: accuracy of guessing, in percent,
    as a thin line.
    """
    figure = new_figure(7.5, 4.6)
    axes = figure.add_subplot()
    several = False
    for place, (label, curves) in enumerate(runs.items()):
        iterations, low, mean, high = _band(curves)
        several |= len(curves) > 1
        colour = COLOURS[place % len(COLOURS)]
        style = STYLES[place // len(COLOURS) % len(STYLES)]
        axes.fill_between(iterations, low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(iterations, mean, style, color=colour, lw=1.8, label=label)
    _chance(axes, chance)
    band = "range over seeds" if several else "95 % interval over tasks"
    axes.set(xlabel="meta-iterations", ylabel="validation accuracy, %", title=title)
    axes.set_xlim(left=0)
    _plain(axes)
    axes.legend(title=f"band: {band}", title_fontsize=8, fontsize=9, loc="center right", frameon=False)
    return figure


def sharing_figure(logs: Mapping[str, Sequence[Mapping[str, Any]]], title: str = "") -> Figure:
    """Gradient sharing over time: s(m_k) and s(lambda_k) of each inner step k, mean over seeds.

    logs: records of `log.jsonl` of every seed. Near 1 (shaded), lambda masks a task's own gradient.
    """
    figure = new_figure(9.5, 3.9)
    left, right = figure.subplots(1, 2, sharey=True)
    shown = {"sigma_m": (left, "σ(m): weight of this batch in the running mean"),
             "sigma_lambda": (right, "σ(λ): weight of the mean in a task's step")}  # fmt: skip
    for key, (axes, heading) in shown.items():
        values, iterations = _mean_over_logs([log for log in logs.values() if log], key)
        for step, line in enumerate(zip(*values, strict=True)):
            colour = COLOURS[step % len(COLOURS)]
            axes.plot(iterations, line, color=colour, lw=1.6, label=f"{step + 1}")
        axes.axhline(0.5, color="0.7", lw=0.8, zorder=0)
        axes.set(xlabel="meta-iterations", title=heading, ylim=(0, 1))
        axes.set_xlim(left=0)
        _plain(axes)
    right.axhspan(0.95, 1, color="#D55E00", alpha=0.12, lw=0)
    left.legend(
        title="inner step", ncols=5, fontsize=8, title_fontsize=8, frameon=False, loc="lower left"
    )
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def adaptation_figure(
    results: Mapping[str, Evaluation],
    title: str = "",
    *,
    trained_steps: int | None = None,
    chance: float | None = None,
) -> Figure:
    """Accuracy on test tasks after 0, 1, ... inner steps, with the 95 % interval over tasks."""
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot()
    for place, (label, result) in enumerate(results.items()):
        steps = range(len(result.by_step))
        colour = COLOURS[place % len(COLOURS)]
        low = [v - i for v, i in zip(result.by_step, result.interval_by_step, strict=True)]
        high = [v + i for v, i in zip(result.by_step, result.interval_by_step, strict=True)]
        axes.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
        marker = "o" if len(steps) <= 15 else ""
        axes.plot(steps, result.by_step, color=colour, lw=1.8, marker=marker, ms=4, label=label)
        mode = "transductive" if result.transductive else "non-transductive"
        axes.set_ylabel(f"test accuracy, % ({mode}, {result.tasks} tasks)")
    if trained_steps is not None:
        axes.axvline(trained_steps, color="0.6", lw=0.8, ls=":")
        axes.annotate(
            "steps in training", (trained_steps, 0.02), (-3, 0), xycoords=("data", "axes fraction"),
            textcoords="offset points", fontsize=8, color="0.35", rotation=90, ha="right",
        )  # fmt: skip
    _chance(axes, chance)
    axes.set(xlabel="inner steps", title=title)
    axes.set_xlim(left=0)
    axes.set_ylim(top=min(101, axes.get_ylim()[1]))
    _plain(axes)
    if len(results) > 1:
        axes.legend(fontsize=9, frameon=False, loc="lower right")
    return figure


def episode_figure(
    task: Task, names: Sequence[str], predictions: torch.Tensor | None = None, title: str = ""
) -> Figure:
    """One task: a row for each class, support images left, queries right.

    names: of the task's classes. predictions: class numbers of the queries; a wrong one gets a red
    frame and the number of the class that was answered.
    """
    ways = len(names)
    support, query = (
        [(labels == label).nonzero().flatten()[:MOST_COLUMNS] for label in range(ways)]
        for labels in (task.support_labels, task.query_labels)
    )
    left, right = max(map(len, support)), max(map(len, query))
    cell = 0.62
    shown = [f"{shorten(name)}  {number}" for number, name in enumerate(names)]
    figure = new_figure(cell * (left + right) + 0.9 + 0.08 * max(map(len, shown)), cell * ways + 0.9)
    grid = figure.add_gridspec(1, 2, width_ratios=[left, right])
    for column, (heading, rows, images) in enumerate(
        (("support", support, task.support), ("query", query, task.query))
    ):
        axes = figure.add_subplot(grid[0, column])
        _tiles(axes, rows, images, left if column == 0 else right)
        axes.set_title(heading, fontsize=10)
        if column == 0:
            axes.set_yticks([row + 0.5 for row in range(ways)], shown)
        elif predictions is not None:
            _mistakes(axes, rows, predictions)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def write(figure: Figure, path: Path) -> Path:
    """Save a figure (PNG, SVG or PDF by its suffix), without a time stamp, to be comparable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix[1:] or "png"
    path = path.with_suffix(f".{kind}")
    write_atomic(path, lambda file: figure.savefig(file, dpi=150, format=kind))
    return path


def shorten(name: str) -> str:
    """The end of a long name, which tells classes of one folder apart."""
    return name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}"


def level(axes: Axes, value: float, text: str, style: Any, above: bool = True) -> None:
    """A thin line across, with its name above or below it."""
    axes.axhline(value, color="0.5", lw=0.8, ls=style)
    axes.annotate(
        text, (1, value), (-4, 3 if above else -3), ha="right", va="bottom" if above else "top",
        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8, color="0.35",
    )  # fmt: skip


def _chance(axes: Axes, chance: float | None) -> None:
    if chance is not None:
        level(axes, chance, f"chance {chance:.3g} %", ":")


def _band(curves: Sequence[Curve]) -> tuple[list[int], list[float], list[float], list[float]]:
    """Iterations that all seeds reached, with low, mean and high of each."""
    tables = [{i: (accuracy, interval) for i, accuracy, interval in curve} for curve in curves]
    common = sorted(set.intersection(*(set(table) for table in tables)))
    rows = [[table[i] for table in tables] for i in common]
    mean = [sum(a for a, _ in row) / len(row) for row in rows]
    if len(curves) > 1:
        return common, [min(row)[0] for row in rows], mean, [max(row)[0] for row in rows]
    low = [row[0][0] - row[0][1] for row in rows]
    return common, low, mean, [row[0][0] + row[0][1] for row in rows]


def _mean_over_logs(
    logs: Sequence[Sequence[Mapping[str, Any]]], key: str
) -> tuple[list[list[float]], list[int]]:
    tables = [{r["iteration"]: r[key] for r in log if key in r} for log in logs]
    common = sorted(set.intersection(*(set(table) for table in tables))) if tables else []
    common = common[:: max(1, len(common) // 400)]
    columns = [list(zip(*(table[i] for table in tables), strict=True)) for i in common]
    return [[sum(step) / len(step) for step in row] for row in columns], common


def _tiles(axes: Axes, rows: Sequence[torch.Tensor], images: torch.Tensor, columns: int) -> None:
    for row, places in enumerate(rows):
        for column, place in enumerate(places.tolist()):
            image = images[place].detach().cpu().float()
            picture = image.permute(1, 2, 0).clamp(0, 1) if image.dim() == 3 else image
            if picture.shape[-1] == 1:
                picture = picture[..., 0]
            axes.imshow(
                picture.numpy(), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest",
                extent=(column + 0.04, column + 0.96, row + 0.96, row + 0.04),
            )  # fmt: skip
    axes.set(xlim=(0, columns), ylim=(len(rows), 0), aspect="equal", xticks=[], yticks=[])
    axes.tick_params(length=0, labelsize=9)
    for side in axes.spines.values():
        side.set_visible(False)


def _mistakes(axes: Axes, rows: Sequence[torch.Tensor], predictions: torch.Tensor) -> None:
    from matplotlib.patches import Rectangle

    for row, places in enumerate(rows):
        for column, place in enumerate(places.tolist()):
            predicted = int(predictions[place])
            if predicted != row:
                axes.add_patch(
                    Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, fill=False, ec="#D55E00", lw=1.8)
                )
                axes.text(
                    column + 0.12, row + 0.14, str(predicted), color="white", fontsize=7, ha="left",
                    va="top", bbox={"facecolor": "#D55E00", "lw": 0, "pad": 1},
                )  # fmt: skip


def _plain(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # steps and iterations are whole
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.92", lw=0.7)
    axes.set_axisbelow(True)
