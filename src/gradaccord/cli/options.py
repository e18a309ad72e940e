"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
