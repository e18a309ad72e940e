"""The command `evaluate`: scores of a trained model on a labelled file, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes
from gradaccord.cli.options import (
    ColumnsOption,
    HeaderOption,
    ModelArgument,
    TaskOption,
    reading_options,
)


@needs("train")
def evaluate(
    model: ModelArgument,
    file: Annotated[Path, typer.Option("--file", metavar="FILE", help="A file with labels.")],
    task: TaskOption = None,
    columns: ColumnsOption = None,
    header: HeaderOption = None,
    worst: Annotated[int, typer.Option(min=0, metavar="N", help="Errors to show.")] = 5,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write everything (.json) or the scores (.csv)."),
    ] = None,
) -> None:
    """Evaluate a trained model on a labelled file of your own.

    Prints all metrics with 95 % bootstrap intervals, beside the scores of chance
    and of the most frequent class; the confusions of classes; the worst errors.
    For example:

    [bold]gradaccord evaluate runs/trio --task sst --file test.csv[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from rich.console import Console

        from gradaccord.cli.evaluate_screen import shown
        from gradaccord.cli.screen import watching
        from gradaccord.train.file_evaluation import evaluate_file
        from gradaccord.train.predict import Predictor

        if out is not None and out.suffix.lower() not in (".json", ".csv"):
            raise ValueError(f"--out is {out}: give a file that ends in .json or .csv.")
        predictor = Predictor(model, task, **reading_options(columns, header))
        with watching(Console(stderr=True)) as watch:
            found = evaluate_file(predictor, model, file, worst=worst, watch=watch)
        Console().print(shown(found))
        if out is not None:
            found.save(out)
            print(f"Written: {out}")
