"""What a step on the multilingual sentence encoder costs, by rows and with its whole table.

    python benchmarks/use.py [--rounds 15] [--write]

The loop of `gradaccord train` on batches of 32 sentences of 8 to 40 words, drawn from the words in
MiniLM's vocabulary, so that a batch has about 750 of them. The floor is MiniLM's step.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
from pathlib import Path

import torch
from loop import by_us
from measure import Arm, cpu_times, markdown, publish, ratios, setting

from gradaccord.models.trunks.loading import load_trunk
from gradaccord.models.trunks.use_multilingual import UseTrunk
from gradaccord.train.config import Config
from gradaccord.train.config_file import check_config

FLOOR, ROWS, WHOLE = "minilm (floor)", "use-multilingual, by rows", "use-multilingual, the whole table"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/README.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder) / "train.csv")
        arms: dict[str, Arm] = {}
        for name in (FLOOR, ROWS, WHOLE):
            if name == WHOLE:
                UseTrunk.tables = ()
            config = configured(name.split()[0].strip(","), Path(folder))
            arms[name] = by_us(config, Path(tempfile.mkdtemp(dir=folder)))
        times = cpu_times(arms, given.rounds, warmup=2)
    found = ratios(times, FLOOR)
    rows = [
        [name, f"{1000 * sorted(own)[given.rounds // 2]:.0f}", f"{found[name]:.2f}"]
        for name, own in times.items()
    ]
    table = markdown(["model", "ms of CPU a step", "CPU time / floor"], rows)
    command = f"benchmarks/use.py --rounds {given.rounds}"
    publish("use", f"{setting(command, 1)}\n\n{table}", given.write)


def write_data(path: Path) -> None:
    """Sentences with a class, for both models the same."""
    draw = random.Random(0)
    tokens = load_trunk("minilm")[1]
    every = (tokens.decode([number]) for number in range(tokens.size))
    words = [word for word in every if word.isascii() and word.isalpha() and len(word) > 2]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for i in range(1280):
            writer.writerow([" ".join(draw.choices(words, k=draw.randint(8, 40))), f"class{i % 3}"])


def configured(model: str, folder: Path) -> Config:
    """Nothing is evaluated or saved during the run."""
    return check_config(
        {
            "model": model,
            "tasks": {"it": {"train": str(folder / "train.csv"), "kind": "classification"}},
            "method": "sum",
            "train": {
                "steps": 10_000, "batch_size": 32, "evaluate_every": 10_000, "save_every": 10_000,
                "threads": 1,
            },
            "probe": {"cosine": False, "distance": False},
        }
    )  # fmt: skip


if __name__ == "__main__":
    main()
