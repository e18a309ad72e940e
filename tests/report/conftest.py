"""A small real comparison: a random BERT, two tasks in files, three methods on two seeds."""

import csv
import json
import random
import shutil

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("transformers")

from compare_toy import file, shared, swept
from report_support import HOSTILE, Page
from small_models import save_checkpoint

__all__ = ["file", "shared", "swept"]

GOOD, BAD = ("good", "great", "fine", "superb"), ("bad", "awful", "dull", "poor")
THINGS = ("the film", "a story", "this plot", "an ending", HOSTILE)
LABELS = ["<b>bad</b>", "good"]


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    """Classes by a word; as a regression, how many of three words are good ones."""
    from gradaccord.train.config_file import check_config

    folder = tmp_path_factory.mktemp("tasks")
    model = save_checkpoint(folder / "bert", "bert", texts=[*GOOD, *BAD, *THINGS], positions=32)
    draw = random.Random(0)
    for split, count in (("train", 32), ("dev", 12), ("test", 12)):
        moods, counts = [], []
        for i in range(count):
            label = i if i < 2 else draw.randrange(2)
            thing = HOSTILE if i < 2 else draw.choice(THINGS)  # of either class: one is predicted wrong
            moods.append((f"{thing} is {draw.choice((BAD, GOOD)[label])}", LABELS[label]))
            words = draw.choices(GOOD + BAD, k=3)
            counts.append((" ".join(words), sum(word in GOOD for word in words) / 3))
        for name, rows in (("mood", moods), ("share", counts)):
            with (folder / f"{name}-{split}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("text", "label"), *rows])

    def files(name):
        return {split: str(folder / f"{name}-{split}.csv") for split in ("train", "dev", "test")}

    return check_config(
        {
            "model": str(model),
            "tasks": {
                "mood": {"kind": "classification", "files": files("mood"), "labels": LABELS},
                "share": {"kind": "regression", "files": files("share"), "pair": None},
            },
            "train": {"gradients": 16, "batch_size": 4, "lr": 1e-3, "threads": 1},
            "probe": {"cosine_batches": 2, "errors": 40},
        }
    )


@pytest.fixture(scope="session")
def comparison(config, tmp_path_factory):
    """The folder that `gradaccord compare` writes; its runs, done in this process."""
    from gradaccord.compare.budget import EqualBudget
    from gradaccord.compare.processes import WANTED
    from gradaccord.compare.setup import list_runs
    from gradaccord.compare.specs import Spec
    from gradaccord.compare.summary import summarise
    from gradaccord.compare.tables import write_tables
    from gradaccord.runs.config_files import write_config
    from gradaccord.train.run import train_run

    folder = tmp_path_factory.mktemp("compared") / "moods"
    budget = EqualBudget(kind="gradients", amount=16)
    runs = list_runs(config, [Spec("sum"), Spec("pcgrad"), Spec("stl")], 2, budget, folder)
    for run in runs:
        run.folder.mkdir(parents=True)
        write_config(run.config, run.folder / WANTED)
        command = ["gradaccord", "train", "a file.yaml", "--out", str(run.folder)]
        run.results = train_run(run.config, run.folder, command=command)
    write_tables(summarise(runs), folder)
    return folder


@pytest.fixture
def copied(comparison, tmp_path):
    """The comparison, free to be damaged."""
    kept = shutil.ignore_patterns("model", "best", "checkpoints")
    return shutil.copytree(comparison, tmp_path / "copied", ignore=kept)


@pytest.fixture(scope="session")
def written(comparison, tmp_path_factory):
    """The page of the comparison."""
    from gradaccord.report.page import write_report

    return write_report(comparison, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="session")
def page(written):
    return Page.of(written.read_text(encoding="utf-8"))


@pytest.fixture
def forgotten(copied):
    """The comparison as if masked-LM losses had been measured, higher at each evaluation."""
    for path in copied.glob("*/seed-*/results.json"):
        results = json.loads(path.read_text())
        for i, record in enumerate(results["evaluations"]):
            record["masked_lm"] = {"mood": 2.0 + i, "unseen news": 3.0 + i, "wiki": 4.0 + i}
        path.write_text(json.dumps(results))
    return copied
