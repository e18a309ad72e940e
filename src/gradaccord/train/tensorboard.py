"""The log of a run for TensorBoard, beside the JSON lines: losses, rates, alignment, scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = "tensorboard"


class TensorBoardLog:
    """Writes the records of a log as scalars; `tensorboard --logdir RUN` shows them."""

    def __init__(self, folder: Path, resume_at: int | None = None) -> None:
        """resume_at: the step after which earlier records are to be forgotten."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ModuleNotFoundError(
                "`train.tensorboard` is true and the package is missing: "
                'pip install "gradaccord[tensorboard]".',
                name="tensorboard",
            ) from error
        purge = None if resume_at is None else resume_at + 1
        self.writer: Any = SummaryWriter(str(folder / FOLDER), purge_step=purge)

    def write(self, record: Mapping[str, Any]) -> None:
        """Add what there is to draw of a record."""
        for name, value in scalars(record):
            self.writer.add_scalar(name, value, int(record["step"]))

    def close(self) -> None:
        """Write through and close."""
        self.writer.close()


def scalars(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a record by the names of their curves."""
    if record["event"] == "step":
        yield "training/lr", record["lr"]
        for task, loss in record["loss"].items():
            yield f"loss/{task}", loss
        for name in ("cosine", "conflicts", "dot"):
            if name in record:
                yield f"alignment/{name}", record[name]
        for name, value in record.get("extras", {}).items():
            yield f"method/{name}", value
    elif record["event"] == "evaluation":
        yield "scores/average", record["average"]
        for task, scores in record["scores"].items():
            for metric, value in scores.items():
                yield f"scores/{task}/{metric}", value
        if "task_cosine" in record:
            yield "alignment/task_cosine", record["task_cosine"]["mean"]
        if "distance" in record:
            yield "distance/total", record["distance"]["total"]
        for name, loss in record.get("masked_lm", {}).items():
            yield f"masked_lm/{name}", loss
