"""The command `init`: writes a commented configuration to start from, for a kind of task or recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradaccord.cli.exit_codes import user_mistakes
from gradaccord.core.did_you_mean import nearest
from gradaccord.recipes import recipe_texts

if TYPE_CHECKING:
    from gradaccord.tasks.task import StartingFile

_TEMPLATE = """\
# gradaccord train {out} | gradaccord compare {out} --methods pcgrad,gradvac --seeds 3
model: {model}
# model: {{name: minilm, freeze: "embeddings, layers 0-3"}}     # parts that are not trained
# model: {{name: minilm, lora: {{r: 8}}}}     # train small adapters instead, with lr 5e-4
tasks:                         # one entry per task; `gradaccord list data` lists the data sets
{tasks}method: sum                    # `gradaccord list methods`; {{name: dotprod, weight: 0.1}}
# regularize: smart            # or swep: a term added to every task's loss
# sampler: {{name: proportional, q: 0.2}}   # default: what suits the method
train:
  epochs: 3                    # or steps, or gradients (the fair budget between methods)
  batch_size: 16
  lr: 5e-5
  optimizer: adamw             # sgd, adam, adafactor, recadam; {{name: adamw, weight_decay: 0.01}}
  schedule: linear             # cosine, constant
  # micro_batches: 2           # compute a batch in parts, to save memory
  # patience: 3                # stop after this many evaluations without a better score
  # warm_start: {{task: first, epochs: 1}}
  # log_with: tensorboard      # or wandb, mlflow, trackio
  seed: 0
probe:
  cosine: true                 # between the tasks' gradients, at each evaluation
  distance: true               # from the pretrained weights
"""


def init(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="A kind of task, or a recipe: `gradaccord list recipes`."),
    ] = "",
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path(
        "gradaccord.yaml"
    ),
) -> None:
    """Write a commented configuration to start from.

    [bold]gradaccord init classification --out mine.yaml[/bold]
    """
    with user_mistakes(ValueError, OSError):
        from gradaccord.runs.files import write_atomic

        text = starting_file(kind, str(out))
        if out.exists():
            raise ValueError(f"{out} exists: choose another --out, or remove it.")
        write_atomic(out, text)
    check = f"pretrain {out} --dry-run" if kind in recipe_texts("pretrain") else f"validate {out}"
    print(f"Written: {out}. Try it with: gradaccord {check}")


def starting_file(kind_or_recipe: str, out: str) -> str:
    """The text of the configuration to start from."""
    from gradaccord.tasks.registry import KINDS

    recipes = {**recipe_texts(), **recipe_texts("pretrain")}
    if kind_or_recipe in recipes:
        return recipes[kind_or_recipe]
    if kind_or_recipe not in KINDS:
        known = [*KINDS, *recipes]
        raise ValueError(
            f"There is no kind of task or recipe {kind_or_recipe!r}: {nearest(kind_or_recipe, known)}"
        )
    start = KINDS[kind_or_recipe].start()
    return _TEMPLATE.format(out=out, model=start.model, tasks=_tasks(kind_or_recipe, start))


def _tasks(kind: str, start: StartingFile) -> str:
    if not start.ending:  # this kind reads no files of the user
        return "".join(f"  {line}\n" for line in start.lines)
    files = f"files: {{train: train.{start.ending}, dev: dev.{start.ending}}}"
    inside = "".join(f"    {line}\n" for line in (files, f"kind: {kind}", *start.lines))
    inside += "    # weight: 2                # its loss counts twice\n"
    inside += "    # patience: 3              # stop training on it when its score stops rising\n"
    return f"  first:\n{inside}  # second: {{data: sts, pair: cross, head: hidden}}\n"
