"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gradaccord.compare.processes import Runner

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A YAML file; see `gradaccord init`.")
]
OverridesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Settings to change, e.g. train.lr=1e-4."),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", envvar="GRADACCORD_DATA", help="The folder of the data sets."
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        metavar="ray[:ADDRESS]",
        help="Run on a Ray cluster: the one at ADDRESS (HOST:PORT), or this machine's.",
    ),
]
RunFolderOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The run's folder; default: runs/FILE."),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue an unfinished run.")]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder of a run or an exported model.")
]
TaskOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which of the model's tasks to use.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="The columns: FIELD=COLUMN,... or all names in order; default: as in training.",
    ),
]
HeaderOption = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether line 1 names the columns; default: detected."),
]


def cluster_runner(
    cluster: str | None, jobs: int | None, say: Callable[[str], None], stack: ExitStack
) -> Runner | None:
    """The cluster that --cluster names, connected until `stack` closes; None without the option."""
    if cluster is None:
        return None
    from gradaccord.compare.cluster import connected

    return stack.enter_context(connected(cluster, jobs, say))


def reading_options(columns: str | None, header: bool | None) -> dict[str, Any]:
    """The options --columns and --header, as arguments of `gradaccord.data.read`."""
    found: dict[str, Any] = {} if header is None else {"header": header}
    if columns is not None:
        names = [name.strip() for name in columns.split(",")]
        pairs = [name.partition("=") for name in names]
        by_field = all(sign for _, sign, _ in pairs)
        if not by_field and any(sign for _, sign, _ in pairs):
            raise ValueError(
                f"--columns is {columns!r}: give FIELD=COLUMN for each, or names alone, in order."
            )
        found["columns"] = {f.strip(): c.strip() for f, _, c in pairs} if by_field else names
    return found
