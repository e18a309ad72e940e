"""The command `predict`: texts or a file in, JSON lines out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import needs, user_mistakes


@needs("train")
def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The folder of a run or an exported model.")
    ],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts, or JSON objects with the fields.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the model's tasks.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", metavar="FILE", help="A text or JSON object a line, or a table; - is stdin."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JSON lines here; default: the terminal.")
    ] = None,
) -> None:
    """Predict with a trained model: texts or a file in, JSON lines out.

    [bold]gradaccord predict runs/trio --task sst "A charming film."[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from rich.console import Console
        from rich.progress import Progress

        from gradaccord.runs.files import write_atomic
        from gradaccord.train.predict import Predictor, read_file, read_input, read_lines

        if (file is None) == (not text):
            raise ValueError("`predict` needs texts or --file, one of the two.")
        predictor = Predictor(model, task)
        where = "The input" if file is None or str(file) == "-" else str(file)
        if file is None:
            inputs = list(enumerate(map(read_input, text or []), start=1))
        elif str(file) == "-":
            try:
                inputs = list(read_lines(sys.stdin))
            except UnicodeDecodeError as error:
                raise ValueError(f"{where} is not UTF-8 text: convert it to UTF-8.") from error
        else:
            inputs = list(read_file(file))
        pairs = [(one, predictor.example(one, where, line)) for line, one in inputs]
        if not pairs:
            raise ValueError(f"{where} is empty: give one text or JSON object a line.")
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            shown = bar.add_task("predicting", total=len(pairs))
            answers = predictor([example for _, example in pairs], lambda n: bar.advance(shown, n))
        lines = [
            json.dumps({"input": given, "prediction": answer}, ensure_ascii=False, default=str) + "\n"
            for (given, _), answer in zip(pairs, answers, strict=True)
        ]
        if out is None:
            sys.stdout.writelines(lines)
        else:
            write_atomic(out, "".join(lines))
            print(f"Written: {out}")
