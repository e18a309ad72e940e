"""The commands list, init, export, predict and doctor."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradaccord.commands import user_mistakes
from gradaccord.train.commands import DataOption


def list_(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="methods, tasks, data, recipes or schema.")
    ],
    data: DataOption = None,
) -> None:
    """Show the methods, kinds of tasks, data sets or recipes that there are.

    [bold]gradaccord list data --data DIR[/bold]

    The JSON schema of configuration files has every key, for editors:

    [bold]gradaccord list schema > gradaccord.schema.json[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from gradaccord.tools.listing import listing

        listing(what, data)


def init(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="A kind of task, or a recipe: `gradaccord list recipes`."),
    ] = "",
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")] = Path(
        "gradaccord.yaml"
    ),
) -> None:
    """Write a commented configuration to start from.

    [bold]gradaccord init classification --out mine.yaml[/bold]
    """
    from gradaccord.tools.starting_file import starting_file

    with user_mistakes(ValueError, OSError):
        text = starting_file(kind, str(out))
        if out.exists():
            raise ValueError(f"{out} exists: choose another --out, or remove it.")
        out.write_text(text, encoding="utf-8")
    print(f"Written: {out}. Try it with: gradaccord validate {out}")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")] = Path("exported"),
) -> None:
    """Write a run's best model as a Hugging Face folder with a model card and its results.

    [bold]gradaccord export runs/trio --out trio-model[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from gradaccord.tools.exporting import export as write

        print(f"Written: {write(run, out)}")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A run's or an exported folder.")],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts, or JSON objects with the fields.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Of the model's tasks.")] = None,
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

        from gradaccord.tools.predicting import Predictor, read_file, read_input, read_lines

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
        target = out.open("w", encoding="utf-8") if out is not None else sys.stdout
        for (given, _), answer in zip(pairs, answers, strict=True):
            answered = {"input": given, "prediction": answer}
            target.write(json.dumps(answered, ensure_ascii=False, default=str) + "\n")
        if out is not None:
            target.close()
            print(f"Written: {out}")


def doctor(
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Also try DotProd's difference on this model.")
    ] = None,
) -> None:
    """Say what is installed, where training will run, and whether DotProd's difference is noise.

    [bold]gradaccord doctor --model minilm[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        from gradaccord.tools.doctor import examine

        for sentence in examine(model):
            print(sentence)
