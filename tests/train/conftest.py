"""A tiny real checkpoint, three small tasks in files, and runs on them."""

import csv
import random

import pytest
from small_models import TEXTS, save_checkpoint

from gradaccord.train.reading import check_config
from gradaccord.train.start import start

WORDS = sorted({word.strip(".,;?").lower() for text in TEXTS for word in text.split()})


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    return save_checkpoint(tmp_path_factory.mktemp("model") / "bert", "bert")


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Two classifications by a word that is there or not; a regression on the share of long ones."""
    folder = tmp_path_factory.mktemp("data")
    draw = random.Random(0)
    for name, word in (("film", "film"), ("bank", "bank"), ("long", None)):
        for split, count in (("train", 64), ("dev", 16)):
            with (folder / f"{name}.{split}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["text", "label"])
                for i in range(count):
                    words = draw.choices(WORDS, k=6)
                    if word is None:
                        label = sum(len(w) > 4 for w in words) / 6
                    else:
                        words = [w for w in words if w != word]
                        label = "yes" if i % 2 else "no"
                        words += [word] if i % 2 else []
                        draw.shuffle(words)
                    writer.writerow([" ".join(words), label])
    return folder


@pytest.fixture(scope="session")
def content(checkpoint, files):
    """A configuration as plain dictionaries; `configured` makes variants of it."""

    def task(name, **more):
        return {
            "files": {split: str(files / f"{name}.{split}.csv") for split in ("train", "dev")},
            "columns": {"first": "text", "label": "label"},
            "max_length": 16,
            **more,
        }

    return {
        "model": str(checkpoint),
        "tasks": {
            "film": task("film", kind="classification", labels=["no", "yes"]),
            "bank": task("bank", kind="classification", labels=["no", "yes"]),
            "long": task("long", kind="regression", pair=None),
        },
        "train": {
            "steps": 12, "lr": 1e-3, "batch_size": 8, "evaluate_every": 6, "save_every": 4,
            "threads": 1,
        },
        "probe": {"cosine_batches": 2, "errors": 3},
    }  # fmt: skip


@pytest.fixture(scope="session")
def configured(content):
    def made(train=None, **changes):
        return check_config({**content, **changes, "train": {**content["train"], **(train or {})}})

    return made


@pytest.fixture
def run(tmp_path):
    def started(config, folder="run", **options):
        return start(config, tmp_path / folder, **options)

    return started
