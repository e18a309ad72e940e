"""The character encoder's pretraining, with the time left: a minute, once on a machine."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gradaccord.models.trunks.loading import load_trunk
from gradaccord.pretrain.characters import Progress as Standing
from gradaccord.train.config import ModelConfig

LINE_EVERY = 10.0  # seconds between two lines where there is no terminal
LABEL = "pretraining on 50 languages"


def pretrain(model: ModelConfig, console: Console) -> None:
    """Nothing is shown if it was done before."""
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
        loss = TextColumn("loss {task.fields[loss]:.2f}")
        with Progress(*columns, TimeRemainingColumn(), loss, console=console, transient=True) as bar:
            task = bar.add_task(LABEL, visible=False, loss=0.0)

            def show(standing: Standing) -> None:
                bar.update(
                    task,
                    completed=standing.step,
                    total=standing.steps,
                    loss=standing.loss,
                    visible=True,
                )

            load_trunk(model.name, **model.options, progress=show)
        return
    last = began = time.monotonic()

    def line(standing: Standing) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            left = (last - began) / standing.step * (standing.steps - standing.step)
            share = standing.step / standing.steps
            console.print(
                f"{LABEL}: {share:.0%}, {left:.0f} s left, loss {standing.loss:.2f}", highlight=False
            )

    load_trunk(model.name, **model.options, progress=line)
