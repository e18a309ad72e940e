"""What is killed and resumed: every method, every few-shot learner, a comparison and a sweep, small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from few_shot_runs import write_patterns
from small_models import save_checkpoint
from train_toy import content_of, write_files

from gradaccord.meta.algorithms import ALGORITHMS, SHARE
from gradaccord.methods.registry import ADDITIONS, METHODS, SINGLE_TASK
from gradaccord.runs.config_files import write_config
from gradaccord.train.config_file import check_config

CONFIG, PICTURES = "small.yaml", "pictures.zip"
TRAIN = {"steps": 20, "save_every": 2, "evaluate_every": 5, "batch_size": 4}
NEEDED = {"torchjd": ["method.weighting=UPGrad"]}  # options without which there is no run
ADDED = {"recadam": "gamma: 100"}  # which would diverge at this rate
# Parts of a run that have a state of their own, each on one method.
MORE = {
    "pcgrad": ["train.warm_start={task: film, epochs: 0.2}"],
    "sum": ["train.tensorboard=true"],
    "sequential": ["train.patience=2"],
    "gradvac": ["train.micro_batches=2"],
}
FEW_SHOT = [
    "--filters", "4", "--ways", "3", "--queries", "2", "--tasks", "2", "--inner-steps", "2",
    "--validate-every", "3", "--iterations", "18", "--validation-tasks", "3", "--test-tasks", "3",
    "--test-queries", "2", "curve_tasks=2", "keep=3", "train_shots=2", "inner_batch=2",
    "evaluation_steps=2",
]  # fmt: skip


@dataclass(frozen=True)
class Chain:
    """One command, given again after every kill until it ends.

    resume: what is added to go on where there is something to go on with; None: the same command.
    starts_others: whether its runs are processes of their own.
    """

    name: str
    command: tuple[str, ...]
    resume: str | None = None
    starts_others: bool = False

    def arguments(self, folder: Path, *, again: bool) -> list[str]:
        """The command line in a folder of the chain's own."""
        if again and self.resume == "fewshot" and (folder / "settings.json").exists():
            return ["fewshot", "train", "--resume", str(folder)]
        more = ["--resume"] if again and self.resume == "train" else []
        return [*self.command, "--out", str(folder), *more]


def write_inputs(folder: Path) -> None:
    """Model, data and configuration of all chains."""
    (folder / "data").mkdir(parents=True)
    content = content_of(save_checkpoint(folder / "model", "bert"), write_files(folder / "data"))
    content["train"] |= TRAIN
    content["probe"] = {"cosine_batches": 1, "errors": 2}
    write_config(check_config(content), folder / CONFIG)
    write_patterns(folder / PICTURES)


def chains(inputs: Path) -> dict[str, Chain]:
    """All of them by name."""
    file, pictures = str(inputs / CONFIG), str(inputs / PICTURES)
    found = []

    def train(name: str, overrides: Sequence[str]) -> None:
        found.append(Chain(f"train {name}", ("train", file, *overrides), "train"))

    for method in (*METHODS, SINGLE_TASK):
        train(method, [f"method.name={method}", *NEEDED.get(method, ()), *MORE.get(method, ())])
    for name, added in ADDITIONS.items():
        key = "train.optimizer" if added.is_optimizer else "regularize"
        train(f"sum+{name}", [f"{key}={{name: {name}, {ADDED.get(name, '')}}}"])
    for algorithm in ALGORITHMS:
        for share in (False, True) if algorithm in SHARE else (False,):
            # One draws its own characters, which takes longer: a kill can meet the drawing, too.
            data = "glyphs" if (algorithm, share) == ("fomaml", False) else pictures
            more = ("--data", data, "--algorithm", algorithm, *(["--share"] if share else []))
            name = f"fewshot {algorithm}{'+sharing' if share else ''}"
            found.append(Chain(name, ("fewshot", "train", *FEW_SHOT, *more), "fewshot"))
    sweep: tuple[Any, ...] = ("sweep", file, "train.lr=1e-4..1e-2", "--trials", "2")
    found.append(Chain("sweep", sweep, starts_others=True))
    compare = ("compare", file, "--methods", "pcgrad", "--seeds", "1", "--jobs", "1")
    found.append(Chain("compare", compare, starts_others=True))
    return {chain.name: chain for chain in found}
