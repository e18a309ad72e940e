"""The command `predict`: predictions with probabilities, for texts or a file."""

from __future__ import annotations

import io
import sys
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
def predict(
    model: ModelArgument,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts, or JSON objects with the fields.")
    ] = None,
    task: TaskOption = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", metavar="FILE", help="A table, or one text or JSON object per line; - is stdin."
        ),
    ] = None,
    columns: ColumnsOption = None,
    header: HeaderOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .csv, .tsv or .jsonl file; default: the terminal."),
    ] = None,
) -> None:
    """Predict with a trained model: texts or a file in, predictions out.

    Classes come with their probabilities. A table keeps its columns. For example:

    [bold]gradaccord predict runs/trio --task sst "A charming film."[/bold]

    [bold]gradaccord predict runs/trio --task sst --file in.csv --out out.csv[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from rich.console import Console

        from gradaccord.cli.screen import watching
        from gradaccord.runs.files import write_atomic
        from gradaccord.train.predict import Predictor, read_input, read_lines, write_answers

        if (file is None) == (not text):
            raise ValueError("`predict` needs either texts or --file.")
        for one in text or ():
            if len(one) < 256 and Path(one).is_file():
                raise ValueError(f"{one!r} is a file, not a text: give it as --file {one}.")
        predictor = Predictor(model, task, **reading_options(columns, header))
        where = "The input" if file is None or str(file) == "-" else str(file)
        if file is None:
            inputs = list(enumerate(map(read_input, text or []), start=1))
        elif str(file) == "-":
            try:
                inputs = list(read_lines(sys.stdin))
            except UnicodeDecodeError as error:
                raise ValueError(f"{where} is not UTF-8 text: convert it to UTF-8.") from error
        else:
            inputs = list(predictor.rows(file))
        examples = [predictor.example(one, where, line) for line, one in inputs]
        if not examples:
            raise ValueError(f"{where} is empty: give one text or JSON object per line.")
        with watching(Console(stderr=True)) as watch:
            answers = predictor.answers(examples, watch.counter("predicting", len(examples)))
        given = [one for _, one in inputs]
        if out is None:
            write_answers(sys.stdout, "jsonl", given, answers)
            return
        text_out = io.StringIO(newline="")
        write_answers(text_out, out.suffix.lower().removeprefix("."), given, answers)
        write_atomic(out, text_out.getvalue())
        print(f"Written: {out}")
