"""`gradaccord init`: a commented configuration to start from, for a kind of task or from a recipe."""

from __future__ import annotations

from gradaccord.recipes import recipe_texts
from gradaccord.train.spelling import nearest

# An example of own files for each kind: (columns, further lines).
_FILES = {
    "classification": ("{first: sentence, label: label}", "labels: [negative, positive]"),
    "regression": ("{first: sentence1, second: sentence2, label: score}", ""),
    "multiple_choice": ("{premise: premise, question: question, label: label}", ""),
    "question_answering": ("", ""),
    "tagging": ("", ""),
    "summarization": ("{text: document, summaries: summary}", ""),
    "masked_lm": ("", ""),
}

_TEMPLATE = """\
# gradaccord train {out} | gradaccord compare {out} --methods pcgrad,gradvac --seeds 3
model: minilm                  # or the folder of a Hugging Face model; `characters` for the names
tasks:                         # one entry a task; `gradaccord list data` shows what can be named
  first:
    files: {{train: train.{ending}, dev: dev.{ending}}}
    kind: {kind}
{columns}  # second: {{data: sts, pair: cross, head: hidden}}
method: sum                    # `gradaccord list methods`; options: {{name: dotprod, weight: 0.1}}
# regularize: smart            # or swep: a term added to every task's loss
# sampler: {{name: proportional, q: 0.2}}   # default: what suits the method
train:
  epochs: 3                    # or steps, or gradients (the fair budget between methods)
  batch_size: 16
  lr: 5e-5
  optimizer: adamw             # sgd, adam, adafactor, recadam; {{name: adamw, weight_decay: 0.01}}
  schedule: linear             # cosine, constant
  # micro_batches: 2           # compute a batch in parts, to save memory
  # patience: 3                # stop after so many evaluations without a better score
  # warm_start: {{task: first, epochs: 1}}
  seed: 0
probe:
  cosine: true                 # between the tasks' gradients, at each evaluation
  distance: true               # from the pretrained weights
"""


def starting_file(kind_or_recipe: str, out: str) -> str:
    """The text of a file to start from."""
    recipes = recipe_texts()
    if kind_or_recipe in recipes:
        return recipes[kind_or_recipe]
    if kind_or_recipe not in _FILES:
        known = [*_FILES, *recipes]
        raise ValueError(
            f"There is no kind or recipe {kind_or_recipe!r}: {nearest(kind_or_recipe, known)}"
        )
    columns, more = _FILES[kind_or_recipe]
    ending = {"question_answering": "json", "tagging": "conll", "masked_lm": "txt"}
    lines = [f"    columns: {columns}", f"    {more}"]
    kept = "".join(f"{line}\n" for line in lines if line.strip() not in ("columns:", ""))
    return _TEMPLATE.format(
        out=out, kind=kind_or_recipe, ending=ending.get(kind_or_recipe, "csv"), columns=kept
    )
